//! Measures the longest pauses while keys are added, expire and are written to disk.

mod show;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quanta::Instant;
use serde::Serialize;
use tidegate::{Domain, Limiter, Rule, VirtualClock, per_day};
use tidegate_core::{KeySeed, Limit, Window};
use tidegate_stores::{Charge, Intent, MemoryStore, MemoryStoreConfig, Verdicts};

use self::watch::{Pause, Pauses, Watch};
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, round};
use crate::progress::Progress;
use crate::stream::{arrivals, write_name};
use crate::subject::{DAY, ask};

/// The number of sections of the growth whose longest pause is drawn.
const STRETCHES: usize = 100;
/// The number of requests that are decided repeatedly during other work.
const BESIDE: usize = 1 << 16;

/// All measured pauses.
#[derive(Serialize)]
struct Found {
    keys: usize,
    /// The same loop without decisions, to measure the pauses of the machine itself.
    machine: Pauses,
    growing: Pauses,
    steady: Pauses,
    beside_snapshot: Pauses,
    snapshot_s: f64,
    restore_s: f64,
    sweep_steps: Pauses,
    beside_sweep: Pauses,
    /// The most cells that any step touched while it held a lock.
    longest_step_cells: usize,
    #[serde(skip)]
    stretches: Vec<Pause>,
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let keys = if options.quick { 1_000_000 } else { 10_000_000 };
    let folder = tempfile::tempdir().map_err(Error::io(&std::env::temp_dir()))?;
    let found = measure(keys, &folder.path().join("snapshot"))?;
    show::draw(options, &found)?;
    Ok(show::finding(&found))
}

fn measure(keys: usize, path: &Path) -> Result<Found, Error> {
    let progress = Progress::new("pauses", 2 * keys as u64);
    progress.step("the machine alone");
    let (machine, _) = bring(keys, &progress, spin);

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
    // Dropping the limiter writes the snapshot once more.
    drop(limiter);

    progress.step("restoring the snapshot");
    let restore_start = Instant::now();
    let (store, expire_all) = restore(keys, path)?;
    let restore_s = restore_start.elapsed().as_secs_f64();

    progress.step("deciding beside the sweep of expired keys");
    expire_all();
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

/// Does nothing for about as long as a decision takes, so that it sees as many of the machine's own pauses.
fn spin(_name: &str) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_nanos(400) {
        std::hint::spin_loop();
    }
    true
}

/// Adds one new key after the other. Returns the pauses, and the longest of each section.
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

/// Decides requests until `work` on another thread is done. Returns its result and when it began, and how long
/// decisions took meanwhile.
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

/// Restores the store, and also returns a function that makes all its keys expire.
fn restore(keys: usize, path: &Path) -> Result<(MemoryStore, impl FnOnce()), Error> {
    let clock = VirtualClock::new();
    let config = MemoryStoreConfig {
        max_keys: keys + keys / 4,
        clock: Arc::new(clock.clone()),
        ..MemoryStoreConfig::new()
    };
    let (store, summary) = MemoryStore::restore(path, config)?;
    ensure(summary.keys == keys as u64, || format!("{} of {keys} keys were restored", summary.keys))?;
    let days_later = summary.written_at.plus(2 * DAY.as_micros() as u64);
    Ok((store, move || clock.set(days_later)))
}

/// Sweeps a store whose keys have all expired, as fast as possible, while a few of them are used again.
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
    let decide = |name: &str| {
        let mut verdicts = Verdicts::new();
        store.settle_now(&[charge(name)], Intent::Take, &mut verdicts);
        verdicts[0].allowed()
    };
    let ((steps, _), watch) = beside(sweep, names, decide);
    let left = store.stats().keys;
    ensure(left <= names.len(), || format!("{left} keys are left after the sweep"))?;
    Ok((steps, watch))
}
