//! Many threads on few keys. Time stands still, so that every sum is exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tidegate_core::{Algorithm, LeakyMode, Limit, VirtualClock};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts, blocked};

use crate::limits::{fixed_window, limit, sliding_log, sliding_window};
use crate::world::{key, store};

const THREADS: u64 = 4;

/// Runs `body` on every thread, and panics if they have not come back after a minute.
fn on_all_threads(body: impl Fn(u64) + Send + Sync) {
    thread::scope(|scope| {
        let (done, all_done) = channel();
        for number in 0..THREADS {
            let (body, done) = (&body, done.clone());
            scope.spawn(move || {
                body(number);
                done.send(()).expect("the test waits");
            });
        }
        for _ in 0..THREADS {
            if all_done.recv_timeout(Duration::from_mins(1)).is_err() {
                eprintln!("a thread panicked, or threads wait for each other");
                std::process::abort();
            }
        }
    });
}

fn settle(store: &MemoryStore, charges: &[Charge<'_>]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    store.settle_now(charges, Intent::Take, &mut verdicts);
    verdicts
}

#[test]
fn threads_together_are_admitted_exactly_the_limit() {
    const MOST: u64 = 1_000;
    let algorithms = [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SubWindows { buckets: 10 },
        Algorithm::SlidingLog,
        Algorithm::TokenBucket { burst: MOST },
        Algorithm::LeakyBucket { burst: MOST, mode: LeakyMode::Meter },
        Algorithm::Concurrency,
    ];
    for algorithm in algorithms {
        let store = store(100_000, &VirtualClock::new());
        let limit = limit(algorithm, MOST);
        let admitted = [const { AtomicU64::new(0) }; 3];
        on_all_threads(|thread| {
            for attempt in 0..MOST {
                for (number, admitted) in admitted.iter().enumerate() {
                    let lease = thread * MOST + attempt;
                    let charge = Charge { lease, ..Charge::new(key("hot", number), &limit, 1) };
                    let fits = settle(&store, &[charge])[0].allowed();
                    admitted.fetch_add(u64::from(fits), Ordering::Relaxed);
                }
            }
        });
        for admitted in admitted {
            assert_eq!(admitted.into_inner(), MOST, "{limit:?}");
        }
    }
}

#[test]
fn requests_in_opposite_orders_never_wait_for_each_other() {
    let store = store(100_000, &VirtualClock::new());
    let limits = [fixed_window(1_000_000), sliding_window(1_000_000), sliding_log(1_000_000)];
    let charges: Vec<_> =
        (0..12).map(|number| Charge::new(key("crossed", number), &limits[number % 3], 1)).collect();
    on_all_threads(|thread| {
        for round in 0..5_000 {
            let mut mine = charges.clone();
            mine.rotate_left((round * 5 + thread as usize) % 12);
            mine.truncate(2 + round % 7);
            if thread % 2 == 1 {
                mine.reverse();
            }
            assert!(settle(&store, &mine).iter().all(tidegate_core::Verdict::allowed));
        }
    });
    let all = (0..5_000).map(|round: u64| 2 + round % 7).sum::<u64>() * THREADS;
    let mut left = Verdicts::new();
    let peeks: Vec<_> = charges.iter().map(|charge| Charge { cost: 0, ..*charge }).collect();
    store.settle_now(&peeks, Intent::Look, &mut left);
    let taken: u64 = left.iter().map(|verdict| 1_000_000 - verdict.remaining).sum();
    assert_eq!(taken, all, "every charge was taken once");
}

/// Each pair is charged together, in either order, while others look on. The second of a pair denies
/// long before the first would.
#[test]
fn counters_charged_together_are_equal_at_every_moment() {
    let store = store(100_000, &VirtualClock::new());
    let pairs: [(Limit, Limit); 3] = [
        (fixed_window(3_000), fixed_window(2_000)),
        (sliding_window(3_000), limit(Algorithm::TokenBucket { burst: 2_000 }, 2_000)),
        (sliding_log(3_000), fixed_window(2_000)),
    ];
    let charges = |number: usize| {
        let (first, second) = &pairs[number];
        [Charge::new(key("first", number), first, 1), Charge::new(key("second", number), second, 1)]
    };
    let admitted = AtomicU64::new(0);
    on_all_threads(|thread| {
        for round in 0..3_000 {
            let mut request = charges(round % 3);
            if (round + thread as usize).is_multiple_of(2) {
                request.reverse();
            }
            if round % 5 == 0 {
                let mut seen = Verdicts::new();
                let peeks = charges(round % 3).map(|charge| Charge { cost: 0, ..charge });
                store.settle_now(&peeks, Intent::Look, &mut seen);
                let taken = [3_000 - seen[0].remaining, 2_000 - seen[1].remaining];
                assert_eq!(taken[0], taken[1], "pair {}", round % 3);
            }
            let fits = !blocked(&request, &settle(&store, &request));
            admitted.fetch_add(u64::from(fits), Ordering::Relaxed);
        }
    });
    assert_eq!(admitted.into_inner(), 3 * 2_000);
}

/// Pages split, expire and merge under the feet of those who charge.
#[test]
fn no_charge_is_lost_while_the_store_grows_and_is_swept() {
    const KEYS: usize = 30_000;
    let clock = VirtualClock::new();
    let store = store(1_000_000, &clock);
    let lasting = limit(Algorithm::TokenBucket { burst: 100 }, 100);
    let brief = Limit::new(Algorithm::FixedWindow, 9, tidegate_core::Window::Period { us: 1 });
    let brief = brief.expect("a limit");
    on_all_threads(|thread| {
        for step in 0..KEYS {
            // Each thread goes through all keys, in an order of its own.
            let number = step * [7, 11, 13, 17][thread as usize] % KEYS;
            let request = [
                Charge::new(key("lasting", number), &lasting, 1),
                Charge::new(key("brief", step), &brief, 1),
            ];
            settle(&store, &request[..=step % 2]);
            if thread == 0 {
                store.sweep_step();
            }
        }
    });
    clock.advance_us(2);
    store.sweep();
    assert_eq!(store.stats().keys, KEYS, "those that have expired are gone");
    for number in 0..KEYS {
        let mut left = Verdicts::new();
        store.settle_now(&[Charge::new(key("lasting", number), &lasting, 0)], Intent::Look, &mut left);
        assert_eq!(left[0].remaining, 100 - THREADS, "key {number}");
    }
}
