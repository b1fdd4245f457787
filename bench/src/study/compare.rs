//! Compares the time per decision with governor.

use std::sync::Barrier;

use quanta::Instant;
use serde::Serialize;

use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target, round, threads as spelled};
use crate::progress::Progress;
use crate::spread::Spread;
use crate::stream::{arrivals, name};
use crate::subject::{self, Governor, ask, ask_governor};

/// Targets for the ratio of our time to governor's: keys, threads and ratio.
const TARGETS: [(usize, usize, f64); 2] = [(1_000_000, 1, 0.5), (1_000_000, 2, 1.0)];
const KEYS: [usize; 2] = [10_000, 1_000_000];
const THREADS: [usize; 2] = [1, 2];

/// Nanoseconds per decision on each thread.
#[derive(Serialize)]
struct Row {
    keys: usize,
    threads: usize,
    governor_ns: Spread,
    tidegate_ns: Spread,
    /// The ratio of our time to governor's, computed per pair of passes.
    ratio: Spread,
}

/// The length and number of passes.
struct Plan {
    decisions: usize,
    passes: usize,
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let plan = if options.quick {
        Plan { decisions: 200_000, passes: 5 }
    } else {
        Plan { decisions: 1_000_000, passes: 11 }
    };
    let progress = Progress::new("compare", (KEYS.len() * THREADS.len() * plan.passes) as u64);
    let mut rows = Vec::new();
    for keys in KEYS {
        let pair = Pair::new(keys, &plan, &progress)?;
        for threads in THREADS {
            progress.step(format!("{} keys, {}", round(keys), spelled(threads)));
            rows.push(pair.race(threads, &plan, &progress)?);
        }
    }
    drop(progress);
    Ok(finding(&rows, &plan))
}

/// The two limiters, filled, and the requests for each thread.
struct Pair {
    keys: usize,
    governor: Governor,
    tidegate: tidegate::Limiter,
    streams: Vec<Vec<String>>,
}

impl Pair {
    fn new(keys: usize, plan: &Plan, progress: &Progress) -> Result<Self, Error> {
        progress.step(format!("filling {} keys", round(keys)));
        let (governor, tidegate) = (subject::governor(), subject::limiter(subject::generous(), keys)?);
        for number in 0..keys {
            let name = name(number);
            ask_governor(&governor, &name);
            ask(&tidegate, &name);
        }
        let streams = (1..=2).map(|seed| arrivals(keys, plan.decisions, seed)).collect();
        Ok(Self { keys, governor, tidegate, streams })
    }

    /// Runs both limiters in turns; each goes first equally often.
    fn race(&self, threads: usize, plan: &Plan, progress: &Progress) -> Result<Row, Error> {
        let streams = &self.streams[..threads];
        let of_governor = || pass(streams, |name| ask_governor(&self.governor, name));
        let of_tidegate = || pass(streams, |name| ask(&self.tidegate, name));
        // The first pass of each is a warm-up.
        of_governor()?;
        of_tidegate()?;
        let (mut governor_ns, mut tidegate_ns) = (Vec::new(), Vec::new());
        for number in 0..plan.passes {
            if number.is_multiple_of(2) {
                governor_ns.push(of_governor()?);
                tidegate_ns.push(of_tidegate()?);
            } else {
                tidegate_ns.push(of_tidegate()?);
                governor_ns.push(of_governor()?);
            }
            progress.done(1);
        }
        let ratio = tidegate_ns.iter().zip(&governor_ns).map(|(ours, theirs)| ours / theirs).collect();
        Ok(Row {
            keys: self.keys,
            threads,
            governor_ns: Spread::of(governor_ns),
            tidegate_ns: Spread::of(tidegate_ns),
            ratio: Spread::of(ratio),
        })
    }
}

/// Decides each stream on its own thread. Returns nanoseconds per decision of a thread, from when all are ready until
/// the last is done.
fn pass(streams: &[Vec<String>], decide: impl Fn(&String) -> bool + Sync) -> Result<f64, Error> {
    let ready = Barrier::new(streams.len());
    let work = |stream: &Vec<String>| {
        ready.wait();
        let start = Instant::now();
        let denied = stream.iter().filter(|name| !decide(name)).count();
        (start, Instant::now(), denied)
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = streams.iter().map(|stream| scope.spawn(|| work(stream))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let denied: usize = done.iter().map(|(_, _, denied)| denied).sum();
    ensure(denied == 0 && done.len() == streams.len(), || format!("{denied} decisions were denied"))?;
    let first = done.iter().map(|(start, ..)| *start).min().unwrap_or_else(Instant::now);
    let last = done.iter().map(|(_, end, _)| *end).max().unwrap_or(first);
    Ok((last - first).as_nanos() as f64 / streams[0].len() as f64)
}

fn finding(rows: &[Row], plan: &Plan) -> Finding {
    let columns = ["keys", "threads", "governor, ns", "Tidegate, ns", "ratio"];
    let mut table = Table::new("Time per decision of each thread: median (least-most)", columns);
    for Row { keys, threads, governor_ns, tidegate_ns, ratio } in rows {
        table.row([
            round(*keys),
            threads.to_string(),
            governor_ns.to_string(),
            tidegate_ns.to_string(),
            format!("{ratio:.2}"),
        ]);
    }
    let targets = TARGETS.iter().filter_map(|(keys, threads, most)| {
        let row = rows.iter().find(|row| row.keys == *keys && row.threads == *threads)?;
        let what = format!("time beside governor, {} keys, {}", round(*keys), spelled(*threads));
        Some(Target::at_most(what, row.ratio.median, *most, "x"))
    });
    let notes = vec![
        format!(
            "A token bucket on both sides, all decisions allowed: governor keyed by `String` in its DashMap \
             store (`check_key`), Tidegate with one rule (`check_now`). {} passes of {} decisions for each, \
             in turns.",
            plan.passes,
            round(plan.decisions)
        ),
        "Keys are drawn evenly; their texts (13 bytes) lie in memory in the order of arrival, the same for \
         both, so that nobody is charged for fetching the benchmark's own strings."
            .to_owned(),
    ];
    Finding {
        study: "compare",
        title: "Time per decision beside governor",
        notes,
        targets: targets.collect(),
        tables: vec![table],
        plots: Vec::new(),
        data: serde_json::json!(rows),
    }
}
