//! Measures whether constant quota changes by administrators slow down decisions.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quanta::Instant;
use serde::Serialize;
use tidegate_load::{Pace, Plan};

use super::programs::Programs;
use super::servers::PLENTY;
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::study::bed::{BATCHED, P99, PERCENTILES, Passes, Tidegate, pass, percentiles};

/// The largest ratio of the 99th percentile with changes to that without.
const MOST_RATIO: f64 = 1.5;
const WRITES_PER_SECOND: u32 = 200;
/// Decisions per second during the changes.
const PER_SECOND: f64 = 20_000.0;
/// The number of tenants that are changed in turn.
const TENANTS: u64 = 1_000;
/// The number of concurrent writers: while one waits for the disk, another sends its change.
const WRITERS: u32 = 4;

#[derive(Serialize)]
struct Row {
    what: &'static str,
    latency_us: Vec<Spread>,
}

pub(super) fn run(options: &Options, programs: &Programs) -> Result<Finding, Error> {
    let passes = Passes::with_changes(options.quick);
    let progress = Progress::new("service writes", passes.count as u64);
    let rules = format!(
        "domain: api\ntenant: user\ndescriptors:\n  - key: user\n    limits:\n      \
         - {{ algorithm: token_bucket, requests: {PLENTY}, per: second, burst: {PLENTY} }}\n"
    );
    let tidegate = Tidegate::start(&programs.launcher, &rules, &[])?;
    let (admin, token) = (tidegate.admin(), tidegate.token()?);
    let mut server = tidegate.over_grpc();
    let mut latencies = [Vec::new(), Vec::new()];
    let (mut written, mut busy) = (0, Duration::ZERO);
    for number in 0..passes.count {
        for turn in 0..2 {
            let changes = (turn + number) % 2 == 1;
            let what = if changes { "with changes" } else { "without" };
            progress.step(format!("pass {}: {what}", number + 1));
            let writers = changes.then(|| Writers::start(admin, &token));
            let plan = Plan {
                pace: Pace::Open { per_second: PER_SECOND, poisson: true },
                ..passes.plan(&server, BATCHED)
            };
            let begun = Instant::now();
            let report = pass(&mut server, &plan);
            if let Some(writers) = writers {
                busy += begun.elapsed();
                written += writers.stop()?;
            }
            latencies[usize::from(changes)].push(report?.latency);
        }
        progress.done(1);
    }
    drop(progress);
    let per_second = written as f64 / busy.as_secs_f64();
    let least = 0.9 * f64::from(WRITES_PER_SECOND);
    ensure(per_second >= least, || format!("only {per_second:.0} changes per second were made"))?;
    let p99 = PERCENTILES[P99].1;
    let ratio =
        latencies[1].iter().zip(&latencies[0]).map(|(with, without)| p99(with) / p99(without)).collect();
    let rows: Vec<Row> = ["without changes", "with changes"]
        .into_iter()
        .zip(&latencies)
        .map(|(what, latencies)| Row { what, latency_us: percentiles(latencies) })
        .collect();
    Ok(finding(&rows, Spread::of(ratio), per_second, busy, passes))
}

fn finding(rows: &[Row], ratio: Spread, per_second: f64, busy: Duration, passes: Passes) -> Finding {
    let caption = format!("Microseconds: median (least-most) of {} passes each", passes.count);
    let mut table = Table::new(caption, ["", "50 %", "90 %", "99 %", "99.9 %", "longest"]);
    for row in rows {
        table.row([row.what.to_owned()].into_iter().chain(row.latency_us.iter().map(ToString::to_string)));
    }
    let note = format!(
        "{PER_SECOND:.0} decisions per second at random times (Poisson) over gRPC, in turns without changes and \
         with {per_second:.0} quotas per second put through the admin API, for {:.0} s in all. The catalog is \
         SQLite on the same disk. Everything of the service has one core, what the changes take included.",
        busy.as_secs_f64(),
    );
    let what = "99th percentile while quotas are put, beside without";
    Finding {
        study: "service writes",
        title: "The service: latency while quotas change",
        notes: vec![note],
        tables: vec![table],
        targets: vec![Target::at_most(what, ratio.median, MOST_RATIO, "x")],
        plots: Vec::new(),
        data: serde_json::json!({ "rows": rows, "ratio": ratio, "writes_per_second": per_second }),
    }
}

/// Writes quotas at a steady rate until it is stopped.
struct Writers {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
}

impl Writers {
    fn start(admin: SocketAddr, token: &str) -> Self {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..WRITERS).map(|number| {
            let (stop, written, token) = (Arc::clone(&stop), Arc::clone(&written), token.to_owned());
            thread::spawn(move || write(admin, &token, number, &stop, &written))
        });
        let threads = threads.collect();
        Self { stop, written, threads }
    }

    fn stop(self) -> Result<u64, Error> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| Error::Wrong("a writer panicked".to_owned()))??;
        }
        Ok(self.written.load(Ordering::Relaxed))
    }
}

fn write(
    admin: SocketAddr,
    token: &str,
    number: u32,
    stop: &AtomicBool,
    written: &AtomicU64,
) -> Result<(), Error> {
    let io = |error| Error::Wrong(format!("the admin API: {error}"));
    let mut stream = TcpStream::connect(admin).map_err(io)?;
    stream.set_nodelay(true).map_err(io)?;
    let pause = Duration::from_secs(1) * WRITERS / WRITES_PER_SECOND;
    let mut due = Instant::now() + pause * number / WRITERS;
    let (mut turn, mut answer) = (u64::from(number), vec![0; 64 << 10]);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due += pause;
        turn += u64::from(WRITERS);
        let requests = i64::from(PLENTY) - (turn % 100_000).cast_signed();
        let body = format!(r#"{{"overrides":[{{"requests_per_unit":{requests},"unit":"second"}}]}}"#);
        let request = format!(
            "PUT /admin/v1/quotas/changed-{} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            turn % TENANTS,
            body.len(),
        );
        stream.write_all(request.as_bytes()).map_err(io)?;
        let read = stream.read(&mut answer).map_err(io)?;
        let text = String::from_utf8_lossy(&answer[..read]);
        ensure(text.starts_with("HTTP/1.1 200"), || format!("a quota was not put: {text}"))?;
        written.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
