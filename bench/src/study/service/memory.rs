//! Measures resident memory by the number of keys.

use serde::Serialize;
use tidegate_load::payload::EnvoyRateLimit;
use tidegate_load::{Endpoint, Keys, Length, Plan};

use super::programs::Programs;
use super::servers::lasting_rules;
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target, grouped, round};
use crate::progress::Progress;
use crate::study::bed::{BATCHED, Tidegate, drive};

/// The number of keys, and the megabytes that the service must stay below with them.
const SIZES: [(u64, f64); 2] = [(1_000_000, 100.0), (10_000_000, 1_000.0)];
/// More keys than are added, so that none is evicted.
const MAX_KEYS: &str = "12000000";

#[derive(Serialize)]
struct Row {
    keys: u64,
    below_mb: f64,
    before_mb: f64,
    after_mb: f64,
    peak_mb: f64,
    per_second: f64,
}

pub(super) fn run(options: &Options, programs: &Programs) -> Result<Finding, Error> {
    let sizes = if options.quick { &SIZES[..1] } else { &SIZES };
    let progress = Progress::new("service memory", sizes.iter().map(|(keys, _)| keys).sum());
    let rows: Result<Vec<Row>, Error> =
        sizes.iter().map(|(keys, below_mb)| grow(*keys, *below_mb, programs, &progress)).collect();
    drop(progress);
    Ok(finding(&rows?))
}

fn grow(keys: u64, below_mb: f64, programs: &Programs, progress: &Progress) -> Result<Row, Error> {
    progress.step(format!("{} keys", round(keys as usize)));
    let tidegate =
        Tidegate::start(&programs.launcher, &lasting_rules(), &[("TIDEGATE_MEMORY__MAX_KEYS", MAX_KEYS)])?;
    let plan = Plan {
        connections: BATCHED.connections,
        streams: BATCHED.streams,
        keys: Keys::Sequential(keys),
        length: Length::Requests(keys),
        pids: vec![tidegate.child.pid()],
        ..Plan::new(Endpoint::Tcp(tidegate.grpc()))
    };
    let mut told = 0;
    // The rate is reported but has no target, so it does not matter here what limits it.
    let report = drive("Tidegate", &plan, &mut EnvoyRateLimit::new("api", "user"), |status| {
        progress.done(status.requests - told);
        told = status.requests;
    })?;
    progress.done(keys.saturating_sub(told));
    let held = tidegate.says("/keys")?;
    ensure(held == keys, || format!("Tidegate holds {held} of {keys} keys"))?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let process = &report.processes[0];
    Ok(Row {
        keys,
        below_mb,
        before_mb: mb(process.resident_before_bytes),
        after_mb: mb(process.resident_after_bytes),
        peak_mb: mb(tidegate.child.peak_bytes()),
        per_second: report.per_second,
    })
}

fn finding(rows: &[Row]) -> Finding {
    let columns = ["keys", "before, MB", "after, MB", "most on the way, MB", "bytes per key", "new keys/s"];
    let mut table = Table::new("Resident memory of the process", columns);
    for row in rows {
        table.row([
            round(row.keys as usize),
            format!("{:.0}", row.before_mb),
            format!("{:.0}", row.after_mb),
            format!("{:.0}", row.peak_mb),
            format!("{:.0}", (row.after_mb - row.before_mb) * 1e6 / row.keys as f64),
            grouped(row.per_second as u64),
        ]);
    }
    let targets = rows.iter().map(|row| {
        let what = format!("resident memory with {} keys", round(row.keys as usize));
        Target::below(what, row.after_mb, row.below_mb, " MB")
    });
    let note = "One request over gRPC for each key, each key with a token bucket that is not full again for an \
                hour; afterwards the service is asked whether it holds them all. Counters are written to disk \
                every minute meanwhile, as they are by default. A MB is 1,000,000 bytes.";
    Finding {
        study: "service memory",
        title: "The service: resident memory",
        notes: vec![note.to_owned()],
        tables: vec![table],
        targets: targets.collect(),
        plots: Vec::new(),
        data: serde_json::json!(rows),
    }
}
