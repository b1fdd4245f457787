//! No step takes longer because there are more keys.

use std::path::Path;

use tidegate_core::VirtualClock;
use tidegate_stores::memory::STEP_CELLS;
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use crate::limits::{PERIOD_US, fixed_window};
use crate::world::{SEED, config, store};

fn grow(store: &MemoryStore, name: &str, keys: usize) {
    let limit = fixed_window(5);
    let (name, mut verdicts) = (SEED.text(name), Verdicts::new());
    for number in 0..keys {
        let key = name.then(SEED.text(&number.to_string()));
        verdicts.clear();
        store.settle_now(&[Charge::new(key, &limit, 1)], Intent::Take, &mut verdicts);
    }
}

fn check(store: &MemoryStore, when: &str) {
    let stats = store.stats();
    assert!(stats.longest_step <= STEP_CELLS, "{when}: {stats:?}");
}

/// Grows to its bound and beyond, is written and read back, expires, is swept and grows again.
fn live(keys: usize, path: &Path) {
    let clock = VirtualClock::new();
    let store = store(keys, &clock);
    grow(&store, "first", keys);
    check(&store, "grown");
    let held = store.stats().keys;
    assert!(held * 10 >= keys * 9, "{held} of {keys}");
    grow(&store, "beyond", keys / 4);
    check(&store, "at the bound");
    store.snapshot(path).expect("a snapshot");
    check(&store, "written");
    // Into a store that is larger, and one that is too small.
    for max_keys in [3 * keys, keys / 3] {
        let (restored, _) = MemoryStore::restore(path, config(max_keys, &clock)).expect("our own snapshot");
        grow(&restored, "after", keys / 20);
        check(&restored, "restored");
    }
    clock.advance_us(PERIOD_US / 2);
    while store.sweep_step() {}
    clock.advance_us(PERIOD_US);
    grow(&store, "second", keys / 4);
    while store.sweep_step() {}
    check(&store, "swept");
    grow(&store, "third", keys / 4);
    check(&store, "grown again");
}

#[test]
fn the_longest_step_is_the_same_for_a_thousand_keys_and_for_two_million() {
    let folder = tempfile::tempdir().expect("a folder");
    for keys in [1_000, 100_000, 2_000_000] {
        live(keys, &folder.path().join("snapshot"));
    }
}
