//! A flood that tries to free keys at their limits by having them forgotten.

use tidegate_core::{Algorithm, Key, LeakyMode, Limit, VirtualClock, Window};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use crate::world::{key, snapshot_of, store};

const SECOND_US: u64 = 1_000_000;
const VICTIMS: usize = 200;
const ROUNDS: usize = 40;

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn limits(requests: u64, seconds: u64) -> Vec<Limit> {
    let algorithms = [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::TokenBucket { burst: requests },
        Algorithm::LeakyBucket { burst: requests, mode: LeakyMode::Meter },
        Algorithm::SubWindows { buckets: 4 },
        Algorithm::SlidingLog,
    ];
    let limit = |algorithm| Limit::new(algorithm, requests, Window::seconds(seconds)).expect("a limit");
    algorithms.into_iter().map(limit).collect()
}

fn ask(store: &MemoryStore, key: Key, limit: &Limit, cost: u64) -> bool {
    let mut verdicts = Verdicts::new();
    store.settle_now(&[Charge::new(key, limit, cost)], Intent::Take, &mut verdicts);
    verdicts[0].allowed()
}

/// Keys at their limits, in a store that has room for them. What counts in windows that began before may
/// be a part of a unit less, so each is asked until it denies.
fn victims(store: &MemoryStore) -> Vec<(Key, Limit)> {
    let limits: Vec<_> = [3, 10, 1_000].into_iter().flat_map(|requests| limits(requests, 86_400)).collect();
    let victim = |number: usize| (key("victim", number), limits[number % limits.len()].clone());
    let victims: Vec<_> = (0..VICTIMS).map(victim).collect();
    for (key, limit) in &victims {
        ask(store, *key, limit, limit.burst());
        assert!(!ask(store, *key, limit, 1), "{limit:?} is used up");
    }
    victims
}

/// Plays rounds of keys that live for a second and for days, that use up their limits or a part of them, old
/// ones and new ones, and lets time pass and sweeps happen in between.
fn attack(store: &MemoryStore, clock: &VirtualClock, max_keys: usize, dice: &mut Dice) {
    let (brief, lasting) = (limits(20, 1), limits(20, 30 * 86_400));
    let mut asked = 0;
    for _ in 0..ROUNDS {
        let limits = if dice.below(2) == 0 { &brief } else { &lasting };
        // One kind a round, or all of them mixed.
        let only = (dice.below(2) == 0).then(|| dice.below(limits.len()));
        let cost = *dice.pick(&[20, 20, 20, 7, 1]);
        let count = *dice.pick(&[max_keys / 50 + 1, max_keys / 8, max_keys / 2, 2 * max_keys]);
        // Some rounds come back to keys that were there before.
        let first = if dice.below(4) == 0 { dice.below(asked + 1) } else { asked };
        for number in first..first + count {
            let limit = &limits[only.unwrap_or(number % limits.len())];
            ask(store, key("adversary", number), limit, cost);
        }
        asked = asked.max(first + count);
        if dice.below(2) == 0 {
            clock.advance_us(SECOND_US / 2 * (1 + dice.below(5) as u64));
        }
        match dice.below(4) {
            0 => store.sweep(),
            1 => (0..dice.below(4)).for_each(|_| _ = store.sweep_step()),
            _ => {}
        }
    }
}

#[test]
fn a_key_at_its_limit_outlives_every_flood_that_comes_after_it() {
    for seed in 0..6 {
        for max_keys in [416, 1_000, 3_000] {
            let clock = VirtualClock::new();
            clock.advance_us(86_400 * SECOND_US);
            let store = store(max_keys, &clock);
            let victims = victims(&store);
            attack(&store, &clock, max_keys, &mut Dice(seed));
            let freed = victims.iter().filter(|(key, limit)| ask(&store, *key, limit, limit.burst())).count();
            assert_eq!(freed, 0, "of {VICTIMS} among {max_keys} keys, seed {seed}");
            assert!(store.stats().keys <= max_keys);
        }
    }
}

/// The store cannot count more keys than it holds, but whoever comes alone is counted all the same.
#[test]
fn a_new_key_is_counted_in_a_store_that_is_full_of_keys_at_their_limits() {
    let clock = VirtualClock::new();
    let (max_keys, lasting) = (3_000, limits(20, 86_400));
    let store = store(max_keys, &clock);
    for number in 0..3 * max_keys {
        ask(&store, key("flood", number), &lasting[number % lasting.len()], 20);
    }
    for number in 0..100 {
        let (key, limit) = (key("late", number), &lasting[number % lasting.len()]);
        let allowed = (0..40).filter(|_| ask(&store, key, limit, 1)).count();
        assert_eq!(allowed, 20, "{limit:?}");
    }
}

#[test]
fn a_restored_store_that_is_full_keeps_its_keys_at_their_limits() {
    let clock = VirtualClock::new();
    let (max_keys, lasting) = (416, limits(20, 30 * 86_400));
    let before = store(max_keys, &clock);
    let victims = victims(&before);
    for number in 0..2 * max_keys {
        ask(&before, key("light", number), &lasting[number % lasting.len()], 1);
    }
    let bytes = snapshot_of(&before);
    let restored = MemoryStore::restore_bytes(&bytes, crate::world::config(max_keys, &clock));
    let (after, _) = restored.expect("our own snapshot");
    attack(&after, &clock, max_keys, &mut Dice(7));
    let freed = victims.iter().filter(|(key, limit)| ask(&after, *key, limit, limit.burst())).count();
    assert_eq!(freed, 0, "of {VICTIMS}");
}
