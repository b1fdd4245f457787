//! The locking under a model checker, which runs threads in every order it can think of:
//! `cargo test -p tidegate-stores --features shuttle`.

use std::sync::Arc;

use shuttle::thread;
use tidegate_core::{Algorithm, Key, KeySeed, Limit, VirtualClock, Window};
use tidegate_stores::{Charge, Intent, MemoryStore, MemoryStoreConfig, Verdicts, blocked};

const SCHEDULES: usize = 8_000;

/// Four shards, and keys that live in each of them.
fn store() -> Arc<MemoryStore> {
    let clock = Arc::new(VirtualClock::new());
    Arc::new(MemoryStore::new(MemoryStoreConfig { max_keys: 1_000, clock, seed: KeySeed(1) }))
}

fn key(shard: u64) -> Key {
    Key { home: shard << 62, mark: 0x9e37_79b9_7f4a_7c15 ^ shard }
}

fn limit(requests: u64) -> Limit {
    Limit::new(Algorithm::FixedWindow, requests, Window::seconds(60)).expect("a limit")
}

fn settle(store: &MemoryStore, charges: &[Charge<'_>], intent: Intent) -> Verdicts {
    let mut verdicts = Verdicts::new();
    store.settle_now(charges, intent, &mut verdicts);
    verdicts
}

fn left(store: &MemoryStore, shard: u64, limit: &Limit) -> u64 {
    settle(store, &[Charge::new(key(shard), limit, 0)], Intent::Look)[0].remaining
}

/// Random orders, and orders that differ from one another in few places, where most bugs show.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let again = Arc::clone(&model);
    shuttle::check_random(move || model(), SCHEDULES);
    shuttle::check_pct(move || again(), SCHEDULES, 3);
}

/// Shuttle fails if all threads wait for each other.
#[test]
fn no_order_of_locking_ends_in_a_deadlock() {
    check(|| {
        let store = store();
        let orders: [&[u64]; 3] = [&[0, 1, 2], &[2, 1, 0], &[1, 3, 0, 3]];
        let threads = orders.map(|order| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                let limit = limit(100);
                let request: Vec<_> = order.iter().map(|shard| Charge::new(key(*shard), &limit, 1)).collect();
                settle(&store, &request, Intent::Take);
                store.give_back_now(&request[..1]);
                store.sweep_step();
            })
        });
        store.stats();
        for thread in threads {
            thread.join().expect("it finishes");
        }
        let limit = limit(100);
        let taken: u64 = (0..4).map(|shard| 100 - left(&store, shard, &limit)).sum();
        assert_eq!(taken, 10 - 3, "every charge was taken once, and one of each request given back");
    });
}

#[test]
fn in_every_order_all_charges_of_a_request_are_taken_or_none() {
    check(|| {
        let store = store();
        let threads = [[0, 1], [1, 0], [0, 1]].map(|order: [u64; 2]| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                // The first has room for all, the second for two.
                let limits = [limit(10), limit(2)];
                let request = order.map(|shard| Charge::new(key(shard), &limits[shard as usize], 1));
                let verdicts = settle(&store, &request, Intent::Take);
                u64::from(!blocked(&request, &verdicts))
            })
        });
        let limits = [limit(10), limit(2)];
        let both = [0, 1].map(|shard: u64| Charge::new(key(shard), &limits[shard as usize], 0));
        let seen = settle(&store, &both, Intent::Look);
        assert_eq!(10 - seen[0].remaining, 2 - seen[1].remaining, "whoever looks sees both or neither");
        let admitted: u64 = threads.map(|thread| thread.join().expect("it finishes")).iter().sum();
        assert_eq!(admitted, 2);
        assert_eq!((left(&store, 0, &limits[0]), left(&store, 1, &limits[1])), (8, 0));
    });
}

#[test]
fn in_every_order_a_limit_admits_exactly_what_it_holds() {
    check(|| {
        let store = store();
        let threads = [(); 3].map(|()| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                let limit = limit(4);
                let charge = [Charge::new(key(2), &limit, 1)];
                (0..2).filter(|_| settle(&store, &charge, Intent::Take)[0].allowed()).count()
            })
        });
        let admitted: usize = threads.map(|thread| thread.join().expect("it finishes")).iter().sum();
        assert_eq!(admitted, 4);
    });
}

#[test]
fn in_every_order_a_slot_is_held_by_one() {
    check(|| {
        let store = store();
        let threads = [1, 2, 3].map(|lease| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                let limit = Limit::concurrency(1, Window::seconds(60)).expect("a limit");
                let slot = Charge { lease, ..Charge::new(key(1), &limit, 1) };
                let acquired = settle(&store, &[slot], Intent::Take)[0].allowed();
                assert_eq!(store.renew_now(&slot), acquired, "who acquired it holds it");
                assert_eq!(store.release_now(&slot), acquired);
                usize::from(acquired)
            })
        });
        let acquired: usize = threads.map(|thread| thread.join().expect("it finishes")).iter().sum();
        assert!((1..=3).contains(&acquired));
    });
}

/// Two threads spend the leases of one node while a third takes and returns units.
#[test]
fn in_every_order_leased_units_are_spent_once_and_none_is_lost_count_of() {
    use tidegate_stores::{LeaseConfig, LeasedStore, Store};

    const REQUESTS: u64 = 400;
    check(|| {
        let clock = Arc::new(VirtualClock::new());
        let config = MemoryStoreConfig { max_keys: 300, clock: clock.clone(), seed: KeySeed(1) };
        let shared = Arc::new(MemoryStore::new(config));
        let leases = LeaseConfig { max_keys: 10, ..LeaseConfig::new(clock.clone()) };
        let leased = Arc::new(LeasedStore::new(Arc::clone(&shared), leases));
        let limit = limit(REQUESTS);
        let take = |leased: &LeasedStore<Arc<MemoryStore>>, limit: &Limit| {
            let charges = [Charge::new(key(0), limit, 1)];
            let settled = leased.settle(&charges, Intent::Take);
            u64::from(pollster::block_on(settled).expect("a verdict")[0].allowed())
        };
        let before: u64 = (0..20).map(|_| take(&leased, &limit)).sum();
        let threads = [0, 1].map(|_| {
            let (leased, limit) = (Arc::clone(&leased), limit.clone());
            thread::spawn(move || (0..6).map(|_| take(&leased, &limit)).sum::<u64>())
        });
        pollster::block_on(leased.tend());
        clock.advance_us(1_000_000);
        leased.sweep();
        pollster::block_on(leased.tend());
        let admitted =
            before + threads.into_iter().map(|thread| thread.join().expect("it finishes")).sum::<u64>();
        pollster::block_on(leased.recall_all());
        let ledger = leased.ledger();
        assert_eq!(
            ledger.granted,
            ledger.spent + ledger.held + ledger.returned + ledger.expired,
            "{ledger:?}"
        );
        assert_eq!(
            left(&shared, 0, &limit) + admitted + ledger.held + ledger.expired,
            REQUESTS,
            "{ledger:?}"
        );
    });
}
