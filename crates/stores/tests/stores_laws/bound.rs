//! How many keys are held, and which are forgotten.

use tidegate_core::{Algorithm, Key, Limit, VirtualClock, Window};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use crate::allocation::held_bytes;
use crate::limits::{self, PERIOD_US, fixed_window, token_bucket};
use crate::world::{key, store};

fn take(store: &MemoryStore, charge: Charge<'_>) -> bool {
    let mut verdicts = Verdicts::new();
    store.settle_now(&[charge], Intent::Take, &mut verdicts);
    verdicts[0].allowed()
}

fn fill(store: &MemoryStore, charge: Charge<'_>) {
    let mut lease = 0;
    while take(store, Charge { lease, ..charge }) {
        lease += 1;
    }
}

fn untouched(store: &MemoryStore, key: Key, limit: &Limit) -> bool {
    let mut verdicts = Verdicts::new();
    store.settle_now(&[Charge::new(key, limit, 0)], Intent::Look, &mut verdicts);
    verdicts[0].remaining == limit.burst()
}

/// One request each from many keys.
fn flood(store: &MemoryStore, name: &str, keys: usize) {
    let limits = [token_bucket(100, 100), fixed_window(100), limits::sliding_log(100)];
    for number in 0..keys {
        take(store, Charge::new(key(name, number), &limits[number % limits.len()], 1));
    }
}

#[test]
fn never_more_keys_than_the_bound() {
    for max_keys in [1, 2, 3, 100, 207, 208, 209, 415, 416, 1_000, 10_000] {
        let store = store(max_keys, &VirtualClock::new());
        let step = (max_keys / 50).max(1);
        for round in 0..1_000 {
            flood(&store, &round.to_string(), step);
            let keys = store.stats().keys;
            assert!(keys <= max_keys, "{keys} keys where {max_keys} may be");
        }
        assert!(store.stats().keys * 10 >= max_keys * 9, "the room there is is used");
    }
}

#[test]
fn a_bound_of_zero_counts_as_one() {
    let store = store(0, &VirtualClock::new());
    flood(&store, "flood", 10);
    assert_eq!(store.stats().keys, 1);
}

/// Of all kinds, at their limit, and each on a limit of its own.
fn heavy() -> Vec<(Key, Limit)> {
    let long = Window::seconds(86_400);
    let algorithms = [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SubWindows { buckets: 24 },
        Algorithm::SlidingLog,
        Algorithm::TokenBucket { burst: 10 },
        Algorithm::LeakyBucket { burst: 20, mode: tidegate_core::LeakyMode::Meter },
        Algorithm::Concurrency,
    ];
    let limit = |number: usize| {
        let algorithm = algorithms[number % algorithms.len()];
        Limit::new(algorithm, 10 + number as u64, long.clone()).expect("a limit")
    };
    (0..64).map(|number| (key("heavy", number), limit(number))).collect()
}

#[test]
fn a_flood_of_new_keys_displaces_its_own_and_no_heavy_key() {
    for max_keys in [100, 200, 1_000, 10_000] {
        let clock = VirtualClock::new();
        let store = store(max_keys, &clock);
        let heavy = heavy();
        flood(&store, "before", max_keys);
        for (key, limit) in &heavy {
            // They come to be heavy while the flood goes on.
            let charge = Charge::new(*key, limit, 1);
            fill(&store, charge);
            flood(&store, &format!("{key:?}"), 10);
        }
        for (key, limit) in heavy.iter().filter(|(_, limit)| limit.algorithm() == Algorithm::Concurrency) {
            let slot = Charge { lease: 3, ..Charge::new(*key, limit, 1) };
            assert!(store.renew_now(&slot), "who holds a slot renews it");
        }
        for round in 0..20 {
            flood(&store, &round.to_string(), max_keys);
            clock.advance_us(1_000);
        }
        for (key, limit) in &heavy {
            let charge = Charge { lease: 1_000, ..Charge::new(*key, limit, 1) };
            assert!(!take(&store, charge), "{limit:?} was forgotten among {max_keys}");
        }
    }
}

#[test]
fn a_flood_that_exhausts_tiny_limits_displaces_no_heavy_key() {
    let store = store(2_000, &VirtualClock::new());
    let busy: Vec<(Key, Limit)> = [64, 100, 128, 1_000]
        .into_iter()
        .map(|requests| (key("busy", requests), fixed_window(requests as u64)))
        .collect();
    for (key, limit) in &busy {
        fill(&store, Charge::new(*key, limit, 1));
    }
    for requests in [1, 2, 3, 7] {
        let tiny = fixed_window(requests);
        for number in 0..20_000 {
            fill(&store, Charge::new(key(&format!("tiny {requests}"), number), &tiny, 1));
        }
    }
    for (key, limit) in &busy {
        assert!(!take(&store, Charge::new(*key, limit, 1)), "{limit} was forgotten");
    }
}

#[test]
fn a_flood_that_takes_whole_limits_at_once_displaces_no_key_at_its_limit() {
    let clock = VirtualClock::new();
    let store = store(2_000, &clock);
    let heavy = heavy();
    for (key, limit) in &heavy {
        fill(&store, Charge::new(*key, limit, 1));
    }
    let day = Window::seconds(86_400);
    let floods = [
        token_bucket(100, 100),
        fixed_window(100_000),
        limits::sliding_window(100),
        Limit::token_bucket(1_000, day).expect("a limit"),
    ];
    for (round, limit) in floods.iter().enumerate() {
        for number in 0..20_000 {
            let charge = Charge::new(key(&format!("flood {round}"), number), limit, limit.burst());
            take(&store, charge);
            // Twice, lest it help to come back.
            take(&store, charge);
        }
        clock.advance_us(1_000);
    }
    for (key, limit) in &heavy {
        let charge = Charge { lease: 1_000, ..Charge::new(*key, limit, 1) };
        assert!(!take(&store, charge), "{limit:?} was forgotten");
    }
}

#[test]
fn expired_keys_go_first_however_full_they_were() {
    // Shards are not equally full, so the larger store is not filled to the last key.
    for (max_keys, kept, others) in [(200, 100, 100), (10_000, 4_000, 3_500)] {
        let clock = VirtualClock::new();
        let store = store(max_keys, &clock);
        let (brief, lasting) = (fixed_window(1), Limit::token_bucket(1_000, Window::seconds(86_400)));
        let lasting = lasting.expect("a limit");
        for number in 0..kept {
            take(&store, Charge::new(key("lasting", number), &lasting, 900));
            take(&store, Charge::new(key("brief", number), &brief, 1));
        }
        assert_eq!(store.stats().evicted, 0);
        clock.advance_us(PERIOD_US + 1);
        let one = limits::sliding_window(1_000);
        for number in 0..others {
            take(&store, Charge::new(key("new", number), &one, 1));
        }
        assert_eq!(store.stats().evicted, 0, "with {max_keys} keys");
        let left: Vec<_> =
            (0..kept).filter(|number| !untouched(&store, key("lasting", *number), &lasting)).collect();
        assert_eq!(left.len(), kept);
    }
}

#[test]
fn sweeping_what_has_expired_gives_the_memory_back() {
    const KEYS: usize = 200_000;
    let clock = VirtualClock::new();
    let empty = held_bytes();
    let store = store(2 * KEYS, &clock);
    for number in 0..KEYS {
        let limits = [fixed_window(5), limits::sub_windows(5), limits::sliding_log(5)];
        take(&store, Charge::new(key("brief", number), &limits[usize::from(number % 100 < 2)], 1));
    }
    let full = held_bytes() - empty;
    clock.advance_us(3 * PERIOD_US);
    store.sweep();
    assert_eq!(store.stats().keys, 0);
    let swept = held_bytes() - empty;
    assert!(swept * 20 < full, "{swept} of {full} bytes are still held");
    // What merges once is whole again after a few rounds.
    (0..10).for_each(|_| store.sweep());
    take(&store, Charge::new(key("again", 0), &fixed_window(5), 1));
    assert_eq!(store.stats().keys, 1);
}

#[test]
fn a_round_of_sweep_steps_ends_and_has_met_every_key() {
    let clock = VirtualClock::new();
    let store = store(100_000, &clock);
    for number in 0..50_000 {
        take(&store, Charge::new(key("brief", number), &fixed_window(5), 1));
    }
    clock.advance_us(PERIOD_US + 1);
    let steps = (0..10_000).take_while(|_| store.sweep_step()).count();
    assert!(steps < 1_000, "a shard has no more than a few pages");
    assert_eq!(store.stats().keys, 0);
}

/// The page is full, and makes room by dropping the one key that has expired.
#[test]
fn a_new_key_in_a_full_page_leaves_its_neighbours_alone() {
    const PAGE: usize = 208;
    let lasting = token_bucket(10, 10);
    for existing in 1..PAGE {
        let clock = VirtualClock::new();
        let store = store(2 * PAGE - 1, &clock);
        take(&store, Charge::new(key("page", 0), &fixed_window(10), 1));
        clock.advance_us(PERIOD_US - 1);
        for number in 1..PAGE {
            take(&store, Charge::new(key("page", number), &lasting, 2));
        }
        clock.advance_us(2);
        let request =
            [Charge::new(key("new", 0), &lasting, 1), Charge::new(key("page", existing), &lasting, 4)];
        store.settle_now(&request, Intent::Take, &mut Verdicts::new());
        let left = |key| {
            let mut left = Verdicts::new();
            store.settle_now(&[Charge::new(key, &lasting, 0)], Intent::Look, &mut left);
            left[0].remaining
        };
        assert_eq!(left(key("new", 0)), 9);
        for number in 1..PAGE {
            let expected = if number == existing { 4 } else { 8 };
            assert_eq!(left(key("page", number)), expected, "key {number} beside {existing}");
        }
        assert_eq!(store.stats().keys, PAGE);
    }
}

/// Whoever makes keys by hand gets less room, not a directory that doubles for ever.
#[test]
fn keys_that_are_no_fingerprints_do_no_harm() {
    let limit = fixed_window(5);
    let before = held_bytes();
    let store = store(10_000, &VirtualClock::new());
    for number in 0..20_000_u64 {
        let of_one_mark = Key { home: number << 52, mark: 7 };
        let in_a_row = Key { home: 0, mark: number };
        take(&store, Charge::new(of_one_mark, &limit, 1));
        take(&store, Charge::new(in_a_row, &limit, 1));
    }
    assert!(store.stats().keys <= 10_000);
    assert!(held_bytes() - before < 4 << 20, "{} bytes are held", held_bytes() - before);
}
