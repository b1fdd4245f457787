//! To disk and back.

mod busy;
mod damage;
mod file;
mod forged;
mod round_trip;

use tidegate_core::{Algorithm, Key, Limit, VirtualClock, Window};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use crate::limits;
use crate::world::{key, store};

/// One key under one limit.
struct Counter {
    key: Key,
    limit: Limit,
}

impl Counter {
    fn charge(&self, cost: u64, lease: u64) -> Charge<'_> {
        Charge { lease, hold: true, ..Charge::new(self.key, &self.limit, cost) }
    }
}

/// Counters of every kind, and of every range of numbers.
fn every_kind() -> Vec<Counter> {
    let mut limits = limits::every();
    let most = tidegate_core::MAX_COUNT;
    let year = || Window::seconds(365 * 86_400);
    for (algorithm, requests) in [
        (Algorithm::FixedWindow, most),
        (Algorithm::SlidingWindow, most),
        (Algorithm::SubWindows { buckets: 60 }, most),
        (Algorithm::TokenBucket { burst: most }, most),
        (Algorithm::TokenBucket { burst: 7 }, most - 1),
        (Algorithm::SlidingLog, 1_000_000),
        (Algorithm::Concurrency, 1_000_000),
    ] {
        limits.push(Limit::new(algorithm, requests, year()).expect("the largest there is"));
    }
    let counter = |(number, limit)| Counter { key: key("counter", number), limit };
    limits.into_iter().enumerate().map(counter).collect()
}

fn take(store: &MemoryStore, charges: &[Charge<'_>]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    store.settle_now(charges, Intent::Take, &mut verdicts);
    verdicts
}

/// A store with a past: several charges of each counter, in several windows.
fn lived(max_keys: usize, clock: &VirtualClock, counters: &[Counter]) -> MemoryStore {
    let store = store(max_keys, clock);
    for step in 0..12 {
        for counter in counters {
            let third = counter.limit.burst() / 3;
            take(&store, &[counter.charge(if step % 4 == 0 { third } else { 1 }, step)]);
        }
        clock.advance_us(limits::PERIOD_US / 7 + step);
    }
    store
}

/// A few counters, so that a snapshot of them can be damaged in every way there is.
fn small(clock: &VirtualClock) -> MemoryStore {
    let counters: Vec<_> = every_kind().into_iter().take(11).collect();
    lived(1_000, clock, &counters)
}
