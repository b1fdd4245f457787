//! Measures how long a decision takes at half of the maximum load.

use serde::Serialize;
use tidegate_load::{Pace, Plan};

use super::programs::Programs;
use super::servers::{self, Stack};
use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Plot, Table, Target, grouped};
use crate::plot::{Axis, Line, line_chart, palette};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::study::bed::{BATCHED, P99, PERCENTILES, Passes, Server, Tidegate, pass, percentiles};

const PLOT: &str = "service-latency.svg";
/// The index of the server that allows every request; the first server is Tidegate.
const CONSTANT: usize = 2;
/// The largest ratio of Tidegate's 99th percentile to that of the server that allows every request.
const MOST_RATIO: f64 = 2.0;
/// The bound that articles on rate limiters set for the 99th percentile.
const BAR_US: f64 = 1_000.0;

#[derive(Serialize)]
struct Row {
    server: &'static str,
    /// Latency by [`PERCENTILES`].
    latency_us: Vec<Spread>,
    /// The 99th percentile of how late the generator sent.
    send_delay_p99_us: Spread,
}

#[derive(Serialize)]
struct Found {
    per_second: f64,
    rows: Vec<Row>,
    /// The ratio of the 99th percentiles, computed per pair of passes.
    ratio: Spread,
}

/// Runs the study at half of `most_per_second`, which is measured if it is `None`.
pub(super) fn run(
    options: &Options,
    programs: &Programs,
    most_per_second: Option<f64>,
) -> Result<Finding, Error> {
    let passes = Passes::short(options.quick);
    let progress = Progress::new("service latency", passes.count as u64);
    let mut servers = [
        Tidegate::start(&programs.launcher, &servers::generous_rules(), &[])?.over_grpc(),
        Tidegate::start(&programs.launcher, &servers::three_rules(), &[])?.with_three_over_grpc(),
        servers::constant(programs, Stack::Own)?,
    ];
    let most_per_second = match most_per_second {
        Some(known) => known,
        None => most(&mut servers[0], Passes::new(options.quick), &progress)?,
    };
    let found = measure(&mut servers, most_per_second / 2.0, passes, &progress)?;
    drop(progress);
    draw(options, &found)?;
    Ok(finding(&found, passes))
}

fn most(server: &mut Server, passes: Passes, progress: &Progress) -> Result<f64, Error> {
    progress.step("the most decisions per second");
    let plan = passes.plan(server, BATCHED);
    let rates: Result<Vec<f64>, Error> =
        (0..passes.count).map(|_| Ok(pass(server, &plan)?.per_second)).collect();
    Ok(Spread::of(rates?).median)
}

fn measure(
    servers: &mut [Server; 3],
    per_second: f64,
    passes: Passes,
    progress: &Progress,
) -> Result<Found, Error> {
    let mut latencies = [Vec::new(), Vec::new(), Vec::new()];
    let mut delays = [Vec::new(), Vec::new(), Vec::new()];
    for number in 0..passes.count {
        for turn in 0..servers.len() {
            let at = (turn + number) % servers.len();
            let server = &mut servers[at];
            progress.step(format!("{per_second:.0} per second, pass {}: {}", number + 1, server.child.name));
            let pace = Pace::Open { per_second, poisson: true };
            let plan = Plan { pace, ..passes.plan(server, BATCHED) };
            let report = pass(server, &plan)?;
            latencies[at].push(report.latency);
            delays[at].push(report.send_delay.unwrap_or_default().p99_us);
        }
        progress.done(1);
    }
    let p99 = PERCENTILES[P99].1;
    let ratio =
        latencies[0].iter().zip(&latencies[CONSTANT]).map(|(ours, theirs)| p99(ours) / p99(theirs)).collect();
    let rows = servers.iter().zip(latencies).zip(delays).map(|((server, latencies), delays)| Row {
        server: server.child.name,
        latency_us: percentiles(&latencies),
        send_delay_p99_us: Spread::of(delays),
    });
    Ok(Found { per_second, rows: rows.collect(), ratio: Spread::of(ratio) })
}

fn draw(options: &Options, found: &Found) -> Result<(), Error> {
    let line = |row: &Row, colour| {
        let points = row.latency_us.iter().enumerate().map(|(at, spread)| (at as f64, spread.median));
        Line::new(row.server, colour, points.collect())
    };
    let last = (PERCENTILES.len() - 1) as f64;
    let lines = [
        line(&found.rows[0], palette::TIDEGATE),
        line(&found.rows[CONSTANT], palette::CONSTANT),
        Line::dashed("1 ms", palette::REFERENCE, vec![(0.0, BAR_US), (last, BAR_US)]),
    ];
    let x = Axis::linear("part of the decisions", 0.0, last, 1.0)
        .labelled(|at| PERCENTILES[at as usize].0.into());
    let y = Axis::log("took at most, µs", &[10.0, 100.0, 1e3, 1e4, 1e5]);
    line_chart(&options.plot(PLOT), "Latency at half the load that the service bears", &x, &y, &lines)
}

fn finding(found: &Found, passes: Passes) -> Finding {
    let caption = format!("Microseconds: median (least-most) of {} passes", passes.count);
    let mut table = Table::new(caption, ["", "50 %", "90 %", "99 %", "99.9 %", "longest", "sent late, 99 %"]);
    for row in &found.rows {
        let spreads = row.latency_us.iter().chain([&row.send_delay_p99_us]);
        table.row([row.server.to_owned()].into_iter().chain(spreads.map(ToString::to_string)));
    }
    let ours_us = found.rows[0].latency_us[P99].median;
    let note = format!(
        "Half the decisions per second that the service reaches in a closed loop: {}, at random times \
         (Poisson), on 4 connections x 32 streams, gRPC. Time counts from when a call was due, so that a call \
         which had to wait for the generator or for a free stream is not let off. The constant on the same \
         stack is asked just as often, in turns, and so is a Tidegate with requests of 3 descriptors: key and \
         endpoint, address, one for all. \"Sent late\" is the part that was spent before the call left. \
         The bar that articles on rate limiters set for 99 % is {BAR_US:.0} µs; Tidegate took {ours_us:.0} µs.",
        grouped(found.per_second as u64),
    );
    let what = "99th percentile beside a constant on the same stack";
    let target = Target::at_most(what, found.ratio.median, MOST_RATIO, "x");
    Finding {
        study: "service latency",
        title: "The service: latency at half its load",
        notes: vec![note],
        tables: vec![table],
        targets: vec![target],
        plots: vec![Plot { file: PLOT, shows: "Latency of Tidegate and of a constant, by percentile" }],
        data: serde_json::json!(found),
    }
}
