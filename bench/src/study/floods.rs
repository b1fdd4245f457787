//! Measures how long a good client waits while others flood the service over HTTP/2.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use quanta::Instant;
use serde::Serialize;
use tidegate_testkit::floods::{Caller, FLOODS, Flood, Stop};

use super::bed::{Bound, Launcher, Tidegate, installed};
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target};
use crate::progress::Progress;
use crate::spread::Spread;

const RULES: &str =
    "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000000000}}]\n";
/// The largest ratio of the 99th percentile under a flood to the one without.
const MOST_RATIO: f64 = 5.0;
const MOST_MS: f64 = 20.0;
/// How long the good client waits after a response before its next request.
const BETWEEN: Duration = Duration::from_millis(1);
/// How long a flood lasts before the good client is measured.
const BEGUN: Duration = Duration::from_millis(300);

/// Latencies of the good client in one pass, in microseconds.
#[derive(Clone, Copy, Serialize)]
struct Pass {
    p50_us: f64,
    p99_us: f64,
    /// Connections that the good client had to reopen.
    reconnections: u64,
}

#[derive(Serialize)]
struct Row {
    flood: &'static str,
    connections: usize,
    calm: Vec<Pass>,
    attacked: Vec<Pass>,
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let launcher = Launcher::find(options)?;
    let idle = installed("chrt", "install util-linux")?;
    let _bound = Bound::to_generator_core()?;
    let (passes, length) =
        if options.quick { (1, Duration::from_millis(500)) } else { (3, Duration::from_millis(1_500)) };
    let progress = Progress::new("floods", FLOODS.len() as u64);
    let mut rows = Vec::new();
    for flood in FLOODS {
        progress.step(flood.name);
        // Each flood has its own service with one worker, so the good client shares the worker with the flood.
        let tidegate = Tidegate::start(&launcher, RULES, &[("TIDEGATE_WORKERS", "1")])?;
        let (mut calm, mut attacked) = (Vec::new(), Vec::new());
        for _ in 0..passes {
            calm.push(ask(tidegate.grpc(), length)?);
            let mut hostile = Attacker::start(&idle, flood, tidegate.grpc(), length)?;
            thread::sleep(BEGUN);
            attacked.push(ask(tidegate.grpc(), length)?);
            hostile.end()?;
        }
        rows.push(Row { flood: flood.name, connections: flood.connections, calm, attacked });
        progress.done(1);
    }
    drop(progress);
    finding(&rows, passes)
}

/// Sends requests for a while, one after the other.
fn ask(at: SocketAddr, length: Duration) -> Result<Pass, Error> {
    let broke = |error| Error::Wrong(format!("the good client was not served: {error}"));
    let mut caller = Caller::connect(at).map_err(broke)?;
    let (end, mut took, mut reconnections) = (Instant::now() + length, Vec::new(), 0);
    while Instant::now() < end {
        let begin = Instant::now();
        while caller.check("api", "user", "good").is_err() {
            reconnections += 1;
            ensure(reconnections < 100, || {
                "the good client was not served: it was closed again and again".to_owned()
            })?;
            caller = Caller::connect(at).map_err(broke)?;
        }
        took.push(begin.elapsed().as_secs_f64() * 1e6);
        thread::sleep(BETWEEN);
    }
    took.sort_by(f64::total_cmp);
    let at = |part: usize| took[(took.len() * part).div_ceil(100).saturating_sub(1)];
    Ok(Pass { p50_us: at(50), p99_us: at(99), reconnections })
}

/// A second process of this program that floods the service. It runs only when the generator's core is otherwise
/// idle, because a real attacker is on another machine.
struct Attacker(Child);

impl Attacker {
    fn start(idle: &std::path::Path, flood: &Flood, at: SocketAddr, length: Duration) -> Result<Self, Error> {
        let here = std::env::current_exe().map_err(Error::io(std::path::Path::new("/proc/self/exe")))?;
        let length_ms = (length + 2 * BEGUN).as_millis().to_string();
        let child = Command::new(idle)
            .args(["--idle", "0"])
            .arg(here)
            .args(["flood", flood.name, &at.to_string(), &length_ms])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(Error::io(idle))?;
        Ok(Self(child))
    }

    /// Waits until the attacker has ended. Fails if it ended before the good client was done.
    fn end(&mut self) -> Result<(), Error> {
        let ended =
            self.0.wait().map_err(|error| Error::Wrong(format!("a flood cannot be waited for: {error}")))?;
        ensure(ended.success(), || "a flood failed".to_owned())
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Floods the service for `length_ms`: the attacker's side of the study.
pub(crate) fn flood(name: &str, at: SocketAddr, length_ms: u64) -> Result<(), Error> {
    let flood =
        Flood::named(name).ok_or_else(|| Error::Wrong(format!("there is no flood named {name:?}")))?;
    let length = Duration::from_millis(length_ms);
    #[expect(clippy::disallowed_methods, reason = "floods take their end from the standard library's clock")]
    let stop = Stop::at(std::time::Instant::now() + length);
    let begun = Instant::now();
    let sent = flood.run(at, &stop);
    // It may have sent everything already; the connections it has opened stay a burden until the end.
    thread::sleep(length.saturating_sub(begun.elapsed()));
    eprintln!("{name}: {} KiB on {} connections", sent.bytes >> 10, sent.connections);
    Ok(())
}

fn finding(rows: &[Row], passes: usize) -> Result<Finding, Error> {
    let median = |passes: &[Pass], of: fn(&Pass) -> f64| Spread::of(passes.iter().map(of).collect()).median;
    let caption = format!("Microseconds of a decision: median of {passes} passes");
    let columns = [
        "flood",
        "connections",
        "calm 50 %",
        "calm 99 %",
        "flooded 50 %",
        "flooded 99 %",
        "ratio of 99 %",
        "verdict",
    ];
    let mut table = Table::new(caption, columns);
    let (mut worst_ratio, mut worst_us) = (("", 0.0), ("", 0.0));
    for row in rows {
        let of = |passes| (median(passes, |pass| pass.p50_us), median(passes, |pass| pass.p99_us));
        let ((calm50, calm99), (p50, p99)) = (of(&row.calm), of(&row.attacked));
        let ratio = p99 / calm99;
        if ratio > worst_ratio.1 {
            worst_ratio = (row.flood, ratio);
        }
        if p99 > worst_us.1 {
            worst_us = (row.flood, p99);
        }
        let held = ratio < MOST_RATIO && p99 < MOST_MS * 1e3;
        let figures = [calm50, calm99, p50, p99].map(|figure| format!("{figure:.0}"));
        let start = [row.flood.to_owned(), row.connections.to_string()];
        let end = [format!("{ratio:.1}"), if held { "held" } else { "MISSED" }.to_owned()];
        table.row(start.into_iter().chain(figures).chain(end));
    }
    let reconnections: u64 = rows.iter().flat_map(|row| &row.attacked).map(|pass| pass.reconnections).sum();
    let targets = vec![
        Target::below(
            format!("p99 of a good client under a flood to the calm one, worst ({})", worst_ratio.0),
            worst_ratio.1,
            MOST_RATIO,
            "x",
        ),
        Target::below(
            format!("p99 of a good client under a flood, worst ({})", worst_us.0),
            worst_us.1 / 1e3,
            MOST_MS,
            " ms",
        ),
    ];
    let note = format!(
        "A good client asks for a decision over gRPC every millisecond or so, calm and then beside each of the floods \
         of `crates/testkit/src/floods.rs`, which send as much as the service takes. The service has one worker, so that \
         both are on the same, and core 0; the client and the flood have core 1, where the flood runs only when the \
         client does not. The good client had to connect again {reconnections} times."
    );
    Ok(Finding {
        study: "floods",
        title: "A good client beside floods",
        notes: vec![note],
        tables: vec![table],
        targets,
        plots: Vec::new(),
        data: serde_json::to_value(rows)?,
    })
}
