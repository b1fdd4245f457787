//! Snapshots while others write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tidegate_core::{Limit, VirtualClock};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use super::take;
use crate::limits::{fixed_window, limit, sliding_log};
use crate::world::{config, key, snapshot_of, store};

fn used(store: &MemoryStore, number: usize, limit: &Limit) -> u64 {
    let mut verdicts = Verdicts::new();
    store.settle_now(&[Charge::new(key("steady", number), limit, 0)], Intent::Look, &mut verdicts);
    limit.requests() - verdicts[0].remaining
}

/// Pages split while they are being written: every counter that was there before is in the snapshot,
/// with a count it had while that was written.
#[test]
fn each_counter_is_written_as_it_was_at_some_moment() {
    const KEYS: usize = 600;
    let clock = VirtualClock::new();
    let store = store(1_000_000, &clock);
    let counts = [fixed_window(1_000_000), sliding_log(1_000_000)];
    let limit_of = |number: usize| &counts[number % 2];
    for number in 0..KEYS {
        take(&store, &[Charge::new(key("steady", number), limit_of(number), 1)]);
    }
    let (stop, added) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                take(&store, &[Charge::new(key("steady", round % KEYS), limit_of(round % KEYS), 1)]);
            }
        });
        scope.spawn(|| {
            let limit = limit(tidegate_core::Algorithm::SlidingWindow, 5);
            for number in (0..300_000).take_while(|_| !stop.load(Ordering::Relaxed)) {
                take(&store, &[Charge::new(key("new", number), &limit, 1)]);
                added.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..12 {
            let before: Vec<_> = (0..KEYS).map(|number| used(&store, number, limit_of(number))).collect();
            let new_before = added.load(Ordering::Relaxed);
            let bytes = snapshot_of(&store);
            let (restored, summary) =
                MemoryStore::restore_bytes(&bytes, config(1_000_000, &clock)).expect("our own snapshot");
            for (number, before) in before.into_iter().enumerate() {
                let restored = used(&restored, number, limit_of(number));
                let after = used(&store, number, limit_of(number));
                assert!((before..=after).contains(&restored), "{before} <= {restored} <= {after}");
            }
            let (least, most) = (KEYS as u64 + new_before, KEYS as u64 + added.load(Ordering::Relaxed) + 1);
            assert!((least..=most).contains(&summary.keys), "{least} <= {} <= {most}", summary.keys);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn snapshots_at_the_same_time_take_turns() {
    let store = store(10_000, &VirtualClock::new());
    for number in 0..5_000 {
        take(&store, &[Charge::new(key("key", number), &fixed_window(5), 1)]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(store.snapshot(&path).expect("a snapshot").keys, 5_000);
                }
            });
        }
    });
    let restored = MemoryStore::restore(&path, config(10_000, &VirtualClock::new()));
    assert_eq!(restored.expect("our own snapshot").1.keys, 5_000);
}
