//! What comes back is what was written.

use tidegate_core::{Algorithm, Limit, VirtualClock, Window};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use super::{Counter, every_kind, lived, take};
use crate::limits::PERIOD_US;
use crate::world::{config, key, snapshot_of, store};

/// From one shard to 256.
const SIZES: [usize; 4] = [50, 1_000, 30_000, 1_000_000];

/// Goes on in both stores, and compares every decision.
fn go_on_alike(one: &MemoryStore, two: &MemoryStore, clock: &VirtualClock, counters: &[Counter]) {
    for step in 0..40 {
        for (number, counter) in counters.iter().enumerate() {
            let other = &counters[(number + step) % counters.len()];
            let cost = [0, 1, 1, 2, counter.limit.burst() / 2][step % 5];
            let lease = 100 + step as u64;
            let request = [counter.charge(cost, lease), other.charge(1, lease)];
            for request in [&request[..1], &request] {
                assert_eq!(take(one, request), take(two, request), "step {step}: {request:?}");
            }
            let slot = counter.charge(1, step as u64 / 2);
            assert_eq!(one.renew_now(&slot), two.renew_now(&slot), "step {step}: {slot:?}");
            let slot = other.charge(1, 100 + step as u64 / 3);
            assert_eq!(one.release_now(&slot), two.release_now(&slot), "step {step}: {slot:?}");
            one.give_back_now(&request[..1]);
            two.give_back_now(&request[..1]);
        }
        clock.advance_us(PERIOD_US / 9);
    }
}

#[test]
fn a_restored_store_goes_on_as_if_nothing_had_happened() {
    for written in SIZES {
        for read in SIZES {
            let clock = VirtualClock::new();
            let counters = every_kind();
            let store = lived(written, &clock, &counters);
            let bytes = snapshot_of(&store);
            let (restored, summary) =
                MemoryStore::restore_bytes(&bytes, config(read, &clock)).expect("our own snapshot");
            store.sweep();
            assert_eq!(summary.keys as usize, store.stats().keys);
            assert_eq!(restored.stats().keys, store.stats().keys);
            assert_eq!(restored.seed(), store.seed(), "the keys' seed comes with them");
            go_on_alike(&store, &restored, &clock, &counters);
        }
    }
}

#[test]
fn nothing_is_lost_from_restart_to_restart() {
    let clock = VirtualClock::new();
    let counters = every_kind();
    let store = lived(1_000, &clock, &counters);
    let mut restarted = lived(1_000, &VirtualClock::new(), &counters);
    for size in SIZES {
        let bytes = snapshot_of(&restarted);
        restarted = MemoryStore::restore_bytes(&bytes, config(size, &clock)).expect("our own snapshot").0;
    }
    go_on_alike(&store, &restarted, &clock, &counters);
}

#[test]
fn time_that_passes_while_the_store_is_down_counts() {
    for down_us in [1, PERIOD_US / 2, PERIOD_US, 3 * PERIOD_US, 100 * PERIOD_US] {
        let clock = VirtualClock::new();
        let counters = every_kind();
        let store = lived(1_000, &clock, &counters);
        let bytes = snapshot_of(&store);
        clock.advance_us(down_us);
        let (restored, summary) =
            MemoryStore::restore_bytes(&bytes, config(30_000, &clock)).expect("our own snapshot");
        store.sweep();
        assert_eq!(summary.keys as usize, store.stats().keys, "what has expired is left out");
        assert!(summary.written_at < store.now());
        go_on_alike(&store, &restored, &clock, &counters);
    }
}

#[test]
fn what_has_expired_is_not_written() {
    let clock = VirtualClock::new();
    let store = lived(1_000, &clock, &every_kind());
    let before = snapshot_of(&store).len();
    clock.advance_us(20 * 366 * 86_400 * 1_000_000);
    let folder = tempfile::tempdir().expect("a folder");
    let summary = store.snapshot(&folder.path().join("snapshot")).expect("a snapshot");
    assert_eq!((summary.keys, summary.written_at), (0, store.now()));
    assert!(snapshot_of(&store).len() < before / 10);
}

#[test]
fn a_store_that_is_too_small_keeps_the_heaviest() {
    let clock = VirtualClock::new();
    let store = store(100_000, &clock);
    let limit = Limit::new(Algorithm::TokenBucket { burst: 200 }, 200, Window::seconds(86_400));
    let limit = limit.expect("a limit");
    for number in 0..20_000 {
        take(&store, &[Charge::new(key("key", number), &limit, 1 + number as u64 % 100)]);
    }
    let bytes = snapshot_of(&store);
    for max_keys in [1, 150, 1_000, 5_000] {
        let (restored, summary) =
            MemoryStore::restore_bytes(&bytes, config(max_keys, &clock)).expect("our own snapshot");
        assert!(restored.stats().keys <= max_keys && summary.keys as usize == restored.stats().keys);
        let used = |number| {
            let mut verdicts = Verdicts::new();
            restored.settle_now(&[Charge::new(key("key", number), &limit, 0)], Intent::Look, &mut verdicts);
            200 - verdicts[0].remaining
        };
        let kept: Vec<_> = (0..20_000).map(used).filter(|used| *used > 0).collect();
        assert_eq!(kept.len(), restored.stats().keys);
        // How full a counter is, is known to half a percent; shards do not get the same share of keys.
        let lightest = kept.iter().min().copied().unwrap_or(0);
        let all_heavier = 100 - 100 * max_keys as u64 / 20_000;
        assert!(lightest + 5 >= all_heavier, "{lightest} was kept where {all_heavier} would fill {max_keys}");
    }
}
