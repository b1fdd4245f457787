//! Measures what recording decisions for the dashboard costs: instructions, and latency with a million keys and
//! denials.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quanta::Instant;
use serde::Serialize;
use tidegate_load::{Keys, Length, Pace, Plan, Report, Status};

use super::bed::{BATCHED, Bound, Launcher, Server, Tidegate, installed, new_folder};
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target, grouped};
use crate::progress::Progress;
use crate::spread::Spread;

/// Rules that let each client pass once a year, so that every further request is denied.
const RULES: &str =
    "domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]\n";
const DENIALS_PER_SECOND: f64 = 10_000.0;
/// The largest ratio of the 99th percentile with the recorder and a dashboard to that without both.
const MOST_RATIO: f64 = 1.2;
const MOST_METRICS_MS: f64 = 100.0;
const MOST_METRICS_BYTES: f64 = 1e6;
/// The longest allowed gap between two updates of a dashboard, which are sent every second.
const MOST_TICK_GAP_S: f64 = 2.0;
const MOST_INSTRUCTIONS: f64 = 40.0;
/// Decisions per second and thread at which instructions are counted.
const RATES: [u64; 3] = [50_000, 200_000, 1_000_000];

/// Instructions per decision, with the recorder and without.
#[derive(Serialize)]
struct Count {
    denied: bool,
    per_second: u64,
    with: f64,
    without: f64,
}

/// The measurements of one service.
#[derive(Default, Serialize)]
struct Seen {
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    metrics_ms: Vec<f64>,
    metrics_bytes: usize,
    top_ms: Vec<f64>,
    ticks: usize,
    longest_tick_gap_s: f64,
}

#[derive(Serialize)]
struct Found {
    keys: u64,
    counts: Vec<Count>,
    with: Seen,
    without: Seen,
    /// The ratio of the 99th percentiles, computed per pair of passes.
    ratio: Spread,
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let launcher = Launcher::find(options)?;
    let (keys, passes) = if options.quick { (100_000, 5) } else { (1_000_000, 15) };
    let progress = Progress::new("recorder", passes + 2 * RATES.len() as u64);
    let counts = count(&launcher.tidegate, &progress)?;
    let _bound = Bound::to_generator_core()?;
    let mut with = Subject::start(&launcher, keys, true)?;
    let mut without = Subject::start(&launcher, keys, false)?;
    for number in 0..passes {
        progress.step(format!("pass {} of {passes}", number + 1));
        // Each goes first equally often.
        let both = [&mut with, &mut without];
        let both = if number % 2 == 0 {
            both
        } else {
            let [one, other] = both;
            [other, one]
        };
        for subject in both {
            subject.pass()?;
        }
        progress.done(1);
    }
    drop(progress);
    let (with, without) = (with.end(), without.end());
    let ratio =
        Spread::of(with.p99_us.iter().zip(&without.p99_us).map(|(with, without)| with / without).collect());
    finding(&Found { keys, counts, with, without, ratio }, passes)
}

/// A service that knows all keys and denies all of them, with a scraper and, if it records, a dashboard.
struct Subject {
    server: Server,
    keys: u64,
    admin: SocketAddr,
    token: String,
    dashboard: Option<Dashboard>,
    seen: Seen,
}

impl Subject {
    fn start(launcher: &Launcher, keys: u64, recorded: bool) -> Result<Self, Error> {
        let settings = [
            ("TIDEGATE_WORKERS", "1"),
            ("TIDEGATE_MEMORY__MAX_KEYS", "4000000"),
            ("TIDEGATE_METRICS__RECORDER", if recorded { "true" } else { "false" }),
        ];
        let tidegate = Tidegate::start(launcher, RULES, &settings)?;
        let (admin, token) = (tidegate.admin(), tidegate.token()?);
        let mut server = tidegate.over_grpc();
        let plan = Plan {
            connections: BATCHED.connections,
            streams: BATCHED.streams,
            keys: Keys::Sequential(keys),
            warm_up: Duration::ZERO,
            length: Length::Requests(keys),
            pids: vec![server.child.pid()],
            ..Plan::new(tidegate_load::Endpoint::Tcp(server.addr))
        };
        let filled = drive(&mut server, &plan)?;
        ensure(filled.denied == 0, || format!("{} of {keys} new keys were denied", filled.denied))?;
        let dashboard = recorded.then(|| Dashboard::open(admin, &token)).transpose()?;
        Ok(Self { server, keys, admin, token, dashboard, seen: Seen::default() })
    }

    /// Runs two seconds of denials while metrics and the top list are read.
    fn pass(&mut self) -> Result<(), Error> {
        let plan = Plan {
            connections: BATCHED.connections,
            streams: BATCHED.streams,
            pace: Pace::Open { per_second: DENIALS_PER_SECOND, poisson: true },
            keys: Keys::Uniform(self.keys),
            warm_up: Duration::from_millis(200),
            length: Length::Time(Duration::from_secs(2)),
            pids: vec![self.server.child.pid()],
            ..Plan::new(tidegate_load::Endpoint::Tcp(self.server.addr))
        };
        let (admin, token) = (self.admin, self.token.clone());
        let scraper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(700));
            (
                timed_get(admin, "/metrics", &token),
                timed_get(admin, "/admin/v1/top?by=denied&window=10m", &token),
            )
        });
        let report = drive(&mut self.server, &plan)?;
        ensure(report.allowed == 0, || format!("{} requests passed, which none should", report.allowed))?;
        let ended = scraper.join().map_err(|_| Error::Wrong("the scraper panicked".to_owned()))?;
        let (metrics, top) = (ended.0?, ended.1?);
        self.seen.p50_us.push(report.latency.p50_us);
        self.seen.p99_us.push(report.latency.p99_us);
        self.seen.metrics_ms.push(metrics.0);
        self.seen.metrics_bytes = self.seen.metrics_bytes.max(metrics.1);
        self.seen.top_ms.push(top.0);
        Ok(())
    }

    fn end(mut self) -> Seen {
        if let Some(dashboard) = self.dashboard.take() {
            (self.seen.ticks, self.seen.longest_tick_gap_s) = dashboard.close();
        }
        self.seen
    }
}

fn drive(server: &mut Server, plan: &Plan) -> Result<Report, Error> {
    let report = tidegate_load::run(plan, &mut *server.payload, &mut |_: Status| ControlFlow::Continue(()))?;
    ensure(report.errors == 0, || format!("{} calls failed: {:?}", report.errors, report.error_texts))?;
    Ok(report)
}

/// Returns how long a GET took, in milliseconds, and the bytes of its body.
fn timed_get(at: SocketAddr, path: &str, token: &str) -> Result<(f64, usize), Error> {
    let broke = |error| Error::Wrong(format!("GET {path} failed: {error}"));
    let begun = Instant::now();
    let mut socket = connect(at, path, token).map_err(broke)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).map_err(broke)?;
    let took_ms = begun.elapsed().as_secs_f64() * 1e3;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(answer.len());
    ensure(answer.starts_with(b"HTTP/1.1 200"), || {
        format!("GET {path} was answered with {}", String::from_utf8_lossy(&answer[..head.min(200)]))
    })?;
    Ok((took_ms, answer.len().saturating_sub(head + 4)))
}

fn connect(at: SocketAddr, path: &str, token: &str) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect(at)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes())?;
    Ok(socket)
}

/// A simulated browser with the dashboard open.
struct Dashboard {
    socket: TcpStream,
    closing: Arc<AtomicBool>,
    reader: JoinHandle<(usize, f64)>,
}

impl Dashboard {
    fn open(admin: SocketAddr, token: &str) -> Result<Self, Error> {
        let broke = |error| Error::Wrong(format!("the live events cannot be read: {error}"));
        let socket = connect(admin, "/admin/v1/live", token).map_err(broke)?;
        let closing = Arc::new(AtomicBool::new(false));
        let (lines, ending) = (BufReader::new(socket.try_clone().map_err(broke)?), Arc::clone(&closing));
        let reader = thread::spawn(move || {
            let (mut ticks, mut longest, mut last) = (0, 0.0_f64, Instant::now());
            for line in lines.lines() {
                let Ok(line) = line else { break };
                if ending.load(Ordering::Relaxed) {
                    break;
                }
                if line.contains("event: tick") {
                    longest = longest.max(last.elapsed().as_secs_f64());
                    (ticks, last) = (ticks + 1, Instant::now());
                }
            }
            // A stream that ended by itself counts as an endless gap.
            let gap = if ending.load(Ordering::Relaxed) { longest } else { f64::INFINITY };
            (ticks, gap)
        });
        Ok(Self { socket, closing, reader })
    }

    /// Returns how many ticks arrived, and the longest time between two, in seconds.
    fn close(self) -> (usize, f64) {
        self.closing.store(true, Ordering::Relaxed);
        // It may be closed already, which the reader reports.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.reader.join().unwrap_or((0, f64::INFINITY))
    }
}

/// Counts the instructions of decisions with the recorder and without, by callgrind.
fn count(tidegate: &Path, progress: &Progress) -> Result<Vec<Count>, Error> {
    let valgrind = installed("valgrind", "apt-get install valgrind")?;
    let mut counts = Vec::new();
    for denied in [false, true] {
        for per_second in RATES {
            let answered = if denied { "denied" } else { "allowed" };
            progress.step(format!("instructions, {answered}, {} per second", grouped(per_second)));
            let per_decision = |recorded| per_decision(&valgrind, tidegate, per_second, denied, recorded);
            counts.push(Count {
                denied,
                per_second,
                with: per_decision(true)?,
                without: per_decision(false)?,
            });
            progress.done(1);
        }
    }
    Ok(counts)
}

/// Counts two runs of different lengths; the difference excludes start and end.
fn per_decision(
    valgrind: &Path,
    tidegate: &Path,
    per_second: u64,
    denied: bool,
    recorded: bool,
) -> Result<f64, Error> {
    const SHORT: u64 = 50_000;
    const LONG: u64 = 250_000;
    let run = |decisions: u64| instructions(valgrind, tidegate, decisions, per_second, denied, recorded);
    Ok((run(LONG)? - run(SHORT)?) / (LONG - SHORT) as f64)
}

/// Returns the instructions of the deciding thread only: the recorder's thread is not on the path of decisions.
fn instructions(
    valgrind: &Path,
    tidegate: &Path,
    decisions: u64,
    per_second: u64,
    denied: bool,
    recorded: bool,
) -> Result<f64, Error> {
    let folder = new_folder()?;
    let out = folder.path().join("out");
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--separate-threads=yes", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(tidegate).arg("decide");
    command.args(["--decisions", &decisions.to_string(), "--per-second", &per_second.to_string()]);
    command.args(denied.then_some("--denied")).args((!recorded).then_some("--unrecorded"));
    let output = command.output().map_err(Error::io(valgrind))?;
    ensure(output.status.success(), || {
        format!("tidegate decide failed under valgrind: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    let first = folder.path().join("out-01");
    let text = fs::read_to_string(&first).map_err(Error::io(&first))?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals:").or(line.strip_prefix("summary:")));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.ok_or_else(|| Error::Wrong("callgrind's file has no total".to_owned()))
}

fn finding(found: &Found, passes: u64) -> Result<Finding, Error> {
    let median = |values: &[f64]| Spread::of(values.to_vec()).median;
    let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let mut instructions = Table::new(
        "Instructions per decision over gRPC",
        ["", "per second and thread", "without", "with", "difference"],
    );
    for Count { denied, per_second, with, without } in &found.counts {
        let answered = if *denied { "denied" } else { "allowed" };
        let figures = [*without, *with, with - without].map(|figure| format!("{figure:.1}"));
        instructions.row([answered.to_owned(), grouped(*per_second)].into_iter().chain(figures));
    }
    let mut latency = Table::new(
        format!("Microseconds of a decision, all of them denied: median of {passes} passes"),
        ["", "50 %", "99 %", "/metrics, ms", "/admin/v1/top, ms"],
    );
    for (name, seen) in [("nothing recorded", &found.without), ("recorded, a dashboard watches", &found.with)]
    {
        let figures = [&seen.p50_us, &seen.p99_us, &seen.metrics_ms, &seen.top_ms];
        let figures = figures.map(|figures| format!("{:.1}", median(figures)));
        latency.row(std::iter::once(name.to_owned()).chain(figures));
    }
    let most = found.counts.iter().map(|count| count.with - count.without).fold(f64::MIN, f64::max);
    let with = &found.with;
    let targets = vec![
        Target::at_most(
            "instructions per decision, recorded to unrecorded, most",
            most,
            MOST_INSTRUCTIONS,
            "",
        ),
        Target::at_most("p99 of a decision, recorded to unrecorded", found.ratio.median, MOST_RATIO, "x"),
        Target::below("/metrics, slowest", worst(&with.metrics_ms), MOST_METRICS_MS, " ms"),
        Target::below("/metrics, size", with.metrics_bytes as f64, MOST_METRICS_BYTES, " bytes"),
        Target::below(
            "longest time without news on the dashboard",
            with.longest_tick_gap_s,
            MOST_TICK_GAP_S,
            " s",
        ),
    ];
    let note = format!(
        "{} keys are known, and {} requests a second are asked for with any of them, in an open loop; every one is \
         denied. One service records nothing (`metrics.recorder: false`), the other records, and a dashboard is open. \
         Metrics and the top list of both are read in every pass. The services have one worker and core 0, the clients \
         core 1. Instructions are counted by callgrind on the deciding thread, with a clock that moves at the rate in \
         question: the faster the decisions come, the fewer of them are samples. The dashboard got {} messages.",
        grouped(found.keys),
        grouped(DENIALS_PER_SECOND as u64),
        with.ticks
    );
    Ok(Finding {
        study: "recorder",
        title: "Recording decisions for the dashboard",
        notes: vec![note],
        tables: vec![instructions, latency],
        targets,
        plots: Vec::new(),
        data: serde_json::to_value(found)?,
    })
}
