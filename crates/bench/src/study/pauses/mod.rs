//! The longest pauses while keys come, expire and are written to disk.

mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quanta::Instant;
use serde::Serialize;
use tidegate::{Domain, Limiter, Micros, Rule, VirtualClock, per_day};
use tidegate_core::{KeySeed, Limit, Window};
use tidegate_stores::memory::STEP_CELLS;
use tidegate_stores::{Charge, Intent, MemoryStore, MemoryStoreConfig};

use self::watch::{Pause, Pauses, Watch};
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Plot, Table, Target, grouped, round};
use crate::plot::{Axis, Line, line_chart, palette};
use crate::progress::Progress;
use crate::stream::{arrivals, write_name};
use crate::subject::{DAY, ask};

const CURVE_PLOT: &str = "pauses.svg";
const GROWTH_PLOT: &str = "pauses-while-growing.svg";
/// Stretches of the growth whose longest pause is drawn.
const STRETCHES: usize = 100;
/// Requests that are decided again and again beside other work.
const BESIDE: usize = 1 << 16;

/// Everything that was timed.
#[derive(Serialize)]
struct Found {
    keys: usize,
    /// The same loop, deciding nothing: what the machine itself does to a thread.
    machine: Pauses,
    growing: Pauses,
    steady: Pauses,
    beside_snapshot: Pauses,
    snapshot_s: f64,
    restore_s: f64,
    sweep_steps: Pauses,
    beside_sweep: Pauses,
    /// The most cells any step touched while it held a lock.
    longest_step_cells: usize,
    #[serde(skip)]
    stretches: Vec<Pause>,
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let keys = if options.quick { 1_000_000 } else { 10_000_000 };
    let folder = tempfile::tempdir().map_err(Error::io(&std::env::temp_dir()))?;
    let found = measure(keys, &folder.path().join("snapshot"))?;
    draw(options, &found)?;
    Ok(finding(&found))
}

fn measure(keys: usize, path: &Path) -> Result<Found, Error> {
    let progress = Progress::new("pauses", 2 * keys as u64);
    progress.step("the machine alone");
    let (machine, _) = bring(keys, &progress, |name| !name.is_empty());

    progress.step(format!("growing to {} keys", round(keys)));
    let domain = Domain::new("api").rule(Rule::by("user").limit(per_day(100).token_bucket()));
    let builder = Limiter::builder().domain(domain).max_keys(keys + keys / 4);
    let limiter = builder.snapshot(path, DAY).build()?;
    let (growing, stretches) = bring(keys, &progress, |name| ask(&limiter, name));
    let held = limiter.stats().keys;
    ensure(held == keys, || format!("the limiter holds {held} of {keys} keys"))?;

    let names = arrivals(keys, BESIDE, 1);
    progress.step("deciding with nothing beside it");
    let mut steady = Watch::new();
    for name in std::iter::repeat_n(&names, 30).flatten() {
        steady.time(|| ask(&limiter, name));
    }
    progress.step("deciding beside a snapshot");
    let (written, beside_snapshot) =
        beside(|| (limiter.snapshot(), Instant::now()), &names, |name| ask(&limiter, name));
    let ((summary, snapshot_end), snapshot_start) = written;
    summary?;
    let limiter_stats = limiter.stats();
    // This writes the snapshot once more.
    drop(limiter);

    progress.step("restoring the snapshot");
    let clock = VirtualClock::new();
    let config = MemoryStoreConfig {
        max_keys: keys + keys / 4,
        clock: Arc::new(clock.clone()),
        ..MemoryStoreConfig::new()
    };
    let restore_start = Instant::now();
    let (store, summary) = MemoryStore::restore(path, config)?;
    let restore_s = restore_start.elapsed().as_secs_f64();
    ensure(summary.keys == keys as u64, || format!("{} of {keys} keys were restored", summary.keys))?;

    progress.step("deciding beside the sweep of expired keys");
    clock.set(Micros(summary.written_at.0 + 2 * DAY.as_micros() as u64));
    let (sweep_steps, beside_sweep) = expire(&store, &names)?;
    let longest_step_cells = limiter_stats.longest_step.max(store.stats().longest_step);
    Ok(Found {
        keys,
        machine: machine.summary(),
        growing: growing.summary(),
        steady: steady.summary(),
        beside_snapshot: beside_snapshot.summary(),
        snapshot_s: (snapshot_end - snapshot_start).as_secs_f64(),
        restore_s,
        sweep_steps: sweep_steps.summary(),
        beside_sweep: beside_sweep.summary(),
        longest_step_cells,
        stretches,
    })
}

/// Brings one new key after the other. Answers the pauses, and the longest of each stretch.
fn bring(keys: usize, progress: &Progress, decide: impl Fn(&str) -> bool) -> (Watch, Vec<Pause>) {
    let (mut watch, mut stretches) = (Watch::new(), Vec::with_capacity(STRETCHES));
    let mut name = String::new();
    for number in 0..keys {
        write_name(&mut name, number);
        watch.time(|| decide(&name));
        if (number + 1).is_multiple_of(keys / STRETCHES) {
            stretches.push(watch.take_recent());
            progress.done((keys / STRETCHES) as u64);
        }
    }
    (watch, stretches)
}

/// Decides requests until `work` on another thread is done. Answers what that gave and when it
/// began, and how long decisions took meanwhile.
fn beside<T: Send>(
    work: impl FnOnce() -> T + Send,
    names: &[String],
    decide: impl Fn(&str) -> bool,
) -> ((T, Instant), Watch) {
    let done = AtomicBool::new(false);
    let mut watch = Watch::new();
    let start = Instant::now();
    let worked = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let worked = work();
            done.store(true, Ordering::Release);
            worked
        });
        'deciding: loop {
            for name in names {
                watch.time(|| decide(name));
                if done.load(Ordering::Acquire) {
                    break 'deciding;
                }
            }
        }
        worker.join()
    });
    match worked {
        Ok(worked) => ((worked, start), watch),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Sweeps a store whose keys have all expired, as fast as it goes, while a few of them are used anew.
fn expire(store: &MemoryStore, names: &[String]) -> Result<(Watch, Watch), Error> {
    let limit = Limit::token_bucket(100, Window::seconds(DAY.as_secs()));
    let limit = limit.map_err(|error| Error::Wrong(error.to_string()))?;
    let seed: KeySeed = store.seed();
    let sweep = || {
        let mut steps = Watch::new();
        while steps.time(|| store.sweep_step()) {}
        steps
    };
    let charge = |name: &str| Charge::new(seed.text(name), &limit, 1);
    let decide = |name: &str| store.settle_one(&charge(name), Intent::Take).allowed();
    let ((steps, _), watch) = beside(sweep, names, decide);
    let left = store.stats().keys;
    ensure(left <= names.len(), || format!("{left} keys are left after the sweep"))?;
    Ok((steps, watch))
}

fn draw(options: &Options, found: &Found) -> Result<(), Error> {
    const DECADES: [f64; 8] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7];
    const TIMES_US: [f64; 7] = [0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0];
    let x = Axis::log("once in this many decisions", &DECADES).labelled(|n| round(n.round() as usize));
    let y = Axis::log("pause of at least", &TIMES_US).labelled(time);
    let lines = [
        Line::new("new keys", palette::TOKEN_BUCKET, found.growing.curve.clone()),
        Line::new("known keys", palette::SLIDING_WINDOW, found.steady.curve.clone()),
        Line::new("beside a snapshot", palette::FIXED_WINDOW, found.beside_snapshot.curve.clone()),
        Line::new("beside a sweep", palette::SUB_WINDOWS, found.beside_sweep.curve.clone()),
        Line::dashed("the machine alone", palette::SLIDING_LOG, found.machine.curve.clone()),
    ];
    let title = format!("How long a decision takes, {} keys", round(found.keys));
    line_chart(&options.plot(CURVE_PLOT), &title, &x, &y, &lines)?;

    let stretch = found.keys as f64 / STRETCHES as f64 / 1e6;
    let points = |longest: fn(&Pause) -> u64| {
        let points = found.stretches.iter().enumerate();
        points.map(|(index, pause)| ((index + 1) as f64 * stretch, longest(pause) as f64 / 1e3)).collect()
    };
    let lines = [
        Line::new("on the wall", palette::REFERENCE, points(|pause| pause.wall_ns)),
        Line::new("of the thread's own time", palette::TOKEN_BUCKET, points(|pause| pause.own_ns)),
    ];
    let millions = found.keys as f64 / 1e6;
    let x = Axis::linear("million keys", 0.0, millions, millions / 10.0);
    let y = Axis::log("longest decision of each stretch", &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5]).labelled(time);
    let title = "The longest decision while keys come";
    line_chart(&options.plot(GROWTH_PLOT), title, &x, &y, &lines)
}

/// Microseconds as people say them.
fn time(us: f64) -> String {
    match us {
        ..0.999 => format!("{:.0} ns", us * 1e3),
        ..999.0 => format!("{us:.0} µs"),
        ..999_000.0 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.0} s", us / 1e6),
    }
}

fn finding(found: &Found) -> Finding {
    let columns = ["", "count", "median, µs", "1 in 1,000", "1 in 100,000", "longest", "longest, own time"];
    let mut table = Table::new("Microseconds a step took", columns);
    let rows = [
        ("an empty loop: the machine alone", &found.machine),
        ("deciding on new keys", &found.growing),
        ("deciding on known keys", &found.steady),
        ("deciding beside a snapshot", &found.beside_snapshot),
        ("deciding beside a sweep", &found.beside_sweep),
        ("a sweep step: a page of every shard", &found.sweep_steps),
    ];
    for (what, pauses) in rows {
        table.row([
            what.to_owned(),
            grouped(pauses.count),
            format!("{:.2}", pauses.median_us),
            format!("{:.1}", pauses.p999_us),
            format!("{:.1}", pauses.p99999_us),
            format!("{:.0}", pauses.longest_us),
            format!("{:.0}", pauses.longest_own_us),
        ]);
    }
    let cells = found.longest_step_cells;
    let notes = vec![
        format!(
            "A limiter grows to {} keys, is written to disk in {:.1} s while decisions go on, is restored in \
             {:.1} s, and expires all at once and is swept while decisions go on. The longest decision on a \
             new key took {:.0} µs, beside the snapshot {:.0} µs, beside the sweep {:.0} µs; an empty loop on \
             this machine was held up for {:.0} µs.",
            round(found.keys),
            found.snapshot_s,
            found.restore_s,
            found.growing.longest_us,
            found.beside_snapshot.longest_us,
            found.beside_sweep.longest_us,
            found.machine.longest_us,
        ),
        format!(
            "A step touches at most {STEP_CELLS} cells while it holds a lock (`STEP_CELLS`), however many keys \
             there are; the most seen was {cells}. A sweep step goes over one page of every shard, one lock at \
             a time. \"Own time\" is the processor time of the thread from the end of one step to the end of \
             the next: it leaves out what the machine gave to others, and waiting for a lock too.",
        ),
    ];
    let bound = Target::at_most("cells touched in one step", cells as f64, STEP_CELLS as f64, "");
    Finding {
        study: "pauses",
        title: "Pauses while keys come, expire and are written",
        notes,
        targets: vec![bound],
        tables: vec![table],
        plots: vec![
            Plot { file: CURVE_PLOT, shows: "How long a decision takes, by how often" },
            Plot { file: GROWTH_PLOT, shows: "The longest decision while the number of keys grows" },
        ],
        data: serde_json::json!(found),
    }
}
