//! Restores whatever comes: as it is, and once more with its checksums put right, so that what lies
//! behind them is reached. A store that comes of it must go on working.

#![no_main]

mod reseal;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tidegate_core::{Algorithm, Key, KeySeed, Limit, Micros, VirtualClock, Window};
use tidegate_stores::{Charge, Force, Intent, MemoryStore, MemoryStoreConfig, Verdicts};

const MAX_KEYS: usize = 500;

fuzz_target!(|bytes: &[u8]| {
    let _ = restore(bytes, &VirtualClock::new());
    let (sealed, written) = reseal::reseal(bytes);
    let clock = VirtualClock::at(Micros(written.at_us & ((1 << 51) - 1)));
    match restore(&sealed, &clock) {
        Ok(store) => go_on(&store, &clock, &written.cells),
        Err(reason) => assert!(!reason.contains("checksum"), "they were put right"),
    }
});

fn restore(bytes: &[u8], clock: &VirtualClock) -> Result<MemoryStore, &'static str> {
    let config = MemoryStoreConfig { max_keys: MAX_KEYS, clock: Arc::new(clock.clone()), seed: KeySeed(1) };
    let (store, summary) = MemoryStore::restore_bytes(bytes, config)?;
    assert_eq!(summary.keys as usize, store.stats().keys);
    Ok(store)
}

/// A limit that keeps its counters in cells of that kind.
fn limit_of(kind: u8) -> Limit {
    let algorithm = match kind {
        0 => Algorithm::FixedWindow,
        1 => Algorithm::SlidingWindow,
        2 => Algorithm::TokenBucket { burst: 3 },
        3 => Algorithm::SubWindows { buckets: 4 },
        4 => Algorithm::SlidingLog,
        _ => Algorithm::Concurrency,
    };
    Limit::new(algorithm, 5, Window::seconds(10)).expect("small numbers make a limit")
}

/// Charges every counter that was in the snapshot, alone and together, under its own kind of limit
/// and under another.
fn go_on(store: &MemoryStore, clock: &VirtualClock, cells: &[reseal::Cell]) {
    let limits: Vec<_> = (0..6).map(limit_of).collect();
    let charges: Vec<_> = cells
        .iter()
        .flat_map(|cell| {
            let key = Key { home: u64::from(cell.home) << 52, mark: cell.mark };
            let kind = usize::from(cell.kind.min(5));
            let own = Charge { hold: true, lease: 1, ..Charge::new(key, &limits[kind], 1) };
            let other =
                Charge { limit: &limits[(kind + 1) % 6], force: Force::Shadow, count_denied: true, ..own };
            [own, other]
        })
        .collect();
    let settle = |charges: &[Charge<'_>], intent| {
        let mut verdicts = Verdicts::new();
        store.settle_now(charges, intent, &mut verdicts);
        assert_eq!(verdicts.len(), charges.len());
    };
    for _ in 0..2 {
        for pair in charges.chunks(2) {
            settle(&pair[..1], Intent::Look);
            settle(&pair[..1], Intent::Take);
            store.renew_now(&pair[0]);
            store.give_back_now(&pair[..1]);
            store.release_now(&pair[0]);
        }
        for some in charges.chunks(5) {
            settle(some, Intent::Take);
        }
        while store.sweep_step() {}
        assert!(store.stats().keys <= MAX_KEYS);
        clock.advance_us(7_000_001);
    }
}
