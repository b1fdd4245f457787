//! Measures how often the approximate algorithms decide wrongly, compared with the exact log.
//!
//! A decision is compared with an exact log of what the algorithm itself has let pass. It is a false allowance if
//! `limit` requests passed in the window before it, and a false denial if fewer did. So each decision is judged on
//! its own, and an earlier error is not counted again. In addition, the study counts how often the algorithm and an
//! independent log differ on the same traffic: there, one early difference shifts the decisions that follow.

mod traffic;

use serde::Serialize;
use tidegate_core::{Algorithm, Limit, LimitError, Micros, State, Window};

use self::traffic::{LIMIT, Traffic, WINDOW_US};
use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Plot, Table, grouped};
use crate::plot::{Axis, Line, line_chart, palette};
use crate::progress::Progress;

const PLOT: &str = "accuracy.svg";
/// The error rate that Cloudflare reported for `sliding_window` on 400 million requests of 270,000 sources.
const CLOUDFLARE_PERCENT: f64 = 0.003;
const BURSTINESS: [f64; 8] = [1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Clients that are far below the limit on average, at different rates.
const ORDINARY: Traffic = Traffic { name: "ordinary", median_rate: 1.0, sigma: 1.0, burstiness: 1.0 };
/// Clients that all send twice the limit, all the time.
const HAMMERING: Traffic = Traffic { name: "hammering", median_rate: 200.0, sigma: 0.0, burstiness: 1.0 };

const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("fixed_window", Algorithm::FixedWindow),
    ("sliding_window", Algorithm::SlidingWindow),
    ("sub_windows, k=10", Algorithm::SubWindows { buckets: 10 }),
    ("sub_windows, k=60", Algorithm::SubWindows { buckets: 60 }),
];

/// The decisions of one algorithm on one kind of traffic.
#[derive(Serialize)]
struct Row {
    traffic: &'static str,
    burstiness: f64,
    algorithm: &'static str,
    tally: Tally,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Tally {
    requests: u64,
    denied: u64,
    /// Denials by an independent log.
    denied_by_log: u64,
    false_allowances: u64,
    false_denials: u64,
    /// Decisions that differ from those of an independent log.
    differing: u64,
}

impl Tally {
    fn percent(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.requests.max(1) as f64
    }

    fn wrong_percent(&self) -> f64 {
        self.percent(self.false_allowances + self.false_denials)
    }
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let clients = if options.quick { 2_000 } else { 20_000 };
    let ordinary = BURSTINESS.map(|burstiness| (Traffic { burstiness, ..ORDINARY }, clients));
    // Hammering clients send a hundred times as much.
    let hammering = [1.0, 8.0].map(|burstiness| (Traffic { burstiness, ..HAMMERING }, clients / 100));
    let crowds: Vec<_> = ordinary.into_iter().chain(hammering).collect();
    let progress = Progress::new("accuracy", crowds.len() as u64);
    let mut rows = Vec::new();
    for (traffic, clients) in crowds {
        progress.step(format!("{} clients, {}, burstiness {}", clients, traffic.name, traffic.burstiness));
        rows.extend(judge(traffic, clients).map_err(|error| Error::Wrong(error.to_string()))?);
        progress.done(1);
    }
    drop(progress);
    draw(options, &rows)?;
    Ok(finding(&rows))
}

/// An algorithm, and the log of what it lets pass.
struct Judged {
    limit: Limit,
    state: State,
    passed: State,
    tally: Tally,
}

/// Sends the traffic through every algorithm.
fn judge(traffic: Traffic, clients: u64) -> Result<[Row; 4], LimitError> {
    let limit = |algorithm| Limit::new(algorithm, LIMIT, Window::Period { us: WINDOW_US });
    let log = limit(Algorithm::SlidingLog)?;
    let mut tallies = [Tally::default(); 4];
    for client in 0..clients {
        let mut judged = Vec::with_capacity(ALGORITHMS.len());
        for ((_, algorithm), tally) in ALGORITHMS.iter().zip(&tallies) {
            let limit = limit(*algorithm)?;
            judged.push(Judged { state: limit.fresh(), limit, passed: log.fresh(), tally: *tally });
        }
        let mut exact = log.fresh();
        for now in traffic.client(client) {
            let exact_allows = log.charge(&mut exact, 1, now).allowed();
            for judged in &mut judged {
                judged.decide(&log, exact_allows, now);
            }
        }
        judged.iter().zip(&mut tallies).for_each(|(judged, tally)| *tally = judged.tally);
    }
    let mut names = ALGORITHMS.iter();
    Ok(tallies.map(|tally| Row {
        traffic: traffic.name,
        burstiness: traffic.burstiness,
        algorithm: names.next().map_or("", |(name, _)| name),
        tally,
    }))
}

impl Judged {
    fn decide(&mut self, log: &Limit, exact_allows: bool, now: Micros) {
        let allows = self.limit.charge(&mut self.state, 1, now).allowed();
        let right = log.assess(&self.passed, 1, now, false).allowed();
        if allows {
            log.take(&mut self.passed, 1, now);
        }
        self.tally.requests += 1;
        self.tally.denied += u64::from(!allows);
        self.tally.denied_by_log += u64::from(!exact_allows);
        self.tally.false_allowances += u64::from(allows && !right);
        self.tally.false_denials += u64::from(!allows && right);
        self.tally.differing += u64::from(allows != exact_allows);
    }
}

fn draw(options: &Options, rows: &[Row]) -> Result<(), Error> {
    let colours =
        [palette::FIXED_WINDOW, palette::SLIDING_WINDOW, palette::SUB_WINDOWS_FEW, palette::SUB_WINDOWS];
    let lines = ALGORITHMS.iter().zip(colours).map(|((name, _), colour)| {
        let rows = rows.iter().filter(|row| row.traffic == ORDINARY.name && row.algorithm == *name);
        Line::new(*name, colour, rows.map(|row| (row.burstiness, row.tally.wrong_percent())).collect())
    });
    let most = BURSTINESS[BURSTINESS.len() - 1];
    let reference = vec![(1.0, CLOUDFLARE_PERCENT), (most, CLOUDFLARE_PERCENT)];
    let reference = Line::dashed("Cloudflare's figure", palette::REFERENCE, reference);
    let lines: Vec<_> = lines.chain(std::iter::once(reference)).collect();
    let x = Axis::log("burstiness: rate in a burst to rate on average", &BURSTINESS);
    let y = Axis::log("wrong decisions, % of requests", &[0.0001, 0.001, 0.01, 0.1, 1.0, 10.0])
        .labelled(|percent| if percent > 0.0001 { percent.to_string() } else { "≤ 0.0001".to_owned() });
    let title = "Wrong decisions against the exact log, ordinary clients";
    line_chart(&options.plot(PLOT), title, &x, &y, &lines)
}

/// The burstiness of the printed rows; the plot and the JSON have all.
const PRINTED: [f64; 3] = [1.0, 8.0, 64.0];

fn finding(rows: &[Row]) -> Finding {
    let columns = [
        "clients, burstiness",
        "algorithm",
        "requests",
        "denied, %",
        "the log denies, %",
        "false allowances, %",
        "false denials, %",
        "wrong, %",
        "differing, %",
    ];
    let mut table = Table::new("Decisions against the exact log, in percent of all requests", columns);
    let printed =
        rows.iter().filter(|row| PRINTED.iter().any(|one| (one - row.burstiness).abs() < f64::EPSILON));
    for Row { traffic, burstiness, algorithm, tally } in printed {
        let percent = |count| format!("{:.4}", tally.percent(count));
        table.row([
            format!("{traffic}, {burstiness}"),
            (*algorithm).to_owned(),
            grouped(tally.requests),
            percent(tally.denied),
            percent(tally.denied_by_log),
            percent(tally.false_allowances),
            percent(tally.false_denials),
            format!("{:.4}", tally.wrong_percent()),
            percent(tally.differing),
        ]);
    }
    Finding {
        study: "accuracy",
        title: "Wrong decisions against the exact log",
        notes: notes(),
        targets: Vec::new(),
        tables: vec![table],
        plots: vec![Plot { file: PLOT, shows: "Wrong decisions over burstiness" }],
        data: serde_json::json!(rows),
    }
}

fn notes() -> Vec<String> {
    vec![
        format!(
            "{LIMIT} requests per minute for each client, in virtual time, from fixed seeds. Clients send at \
             random moments (Poisson) while a burst lasts, 20 s on average, and pause between bursts; \
             burstiness is the rate in a burst to the rate on average; the hour of the day swings it by \
             60 %. Ordinary clients want 1 per minute in the median and are log-normal (sigma 1) around it; \
             hammering ones want twice the limit, all of them, all the time."
        ),
        "Each algorithm decides for itself. A decision is wrong if an exact log of what that algorithm has \
         let pass says otherwise: a false allowance if the limit had passed within the last minute, a false \
         denial if less had. \"Differing\" is how often a log that decides for itself on the same traffic \
         answers otherwise; there one early difference shifts all that follow. Clients who hammer are at their \
         limit all the time: who passes a moment earlier or later is a wrong decision then, while about as \
         many pass."
            .to_owned(),
        format!(
            "For reference: Cloudflare reports {CLOUDFLARE_PERCENT} % wrong decisions of its two-counter \
             window, over 400 million requests of 270,000 sources. Such a figure says as much about the \
             clients as about the algorithm: only a client near its limit can be decided wrongly."
        ),
    ]
}
