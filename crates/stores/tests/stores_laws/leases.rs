//! Leases over a store: spent without a call, returned when they are not needed, and never more than the limit.

use std::sync::Arc;
use std::time::Duration;

use pollster::block_on;
use tidegate_core::{Algorithm, Clock, Key, Limit, Micros, VirtualClock, Window};
use tidegate_stores::leased::Ledger;
use tidegate_stores::{Charge, Intent, LeaseConfig, LeasedStore, MemoryStore, Store, Verdicts};

use crate::allocation::held_bytes;
use crate::conformance::World;
use crate::world::{SEED, key, store};

type Leased = LeasedStore<Arc<MemoryStore>>;

fn node(shared: &Arc<MemoryStore>, clock: &VirtualClock) -> Leased {
    LeasedStore::new(Arc::clone(shared), LeaseConfig::new(Arc::new(clock.clone())))
}

fn fleet() -> (VirtualClock, Arc<MemoryStore>, Leased) {
    let clock = VirtualClock::new();
    let shared = Arc::new(store(100_000, &clock));
    let leased = node(&shared, &clock);
    (clock, shared, leased)
}

fn limit(requests: u64) -> Limit {
    Limit::token_bucket(requests, Window::seconds(60)).expect("a limit")
}

/// Uses a key so much that the node leases units of it. Returns how many it has used.
fn warm_up(leased: &Leased, charge: &Charge<'_>) -> u64 {
    for used in 1..1_000 {
        assert!(take(leased, charge));
        block_on(leased.tend());
        if leased.ledger().held > 50 {
            return used;
        }
    }
    panic!("nothing is leased: {:?}", leased.ledger());
}

fn take(leased: &Leased, charge: &Charge<'_>) -> bool {
    block_on(leased.settle(std::slice::from_ref(charge), Intent::Take)).expect("a verdict")[0].allowed()
}

fn try_now(leased: &Leased, charges: &[Charge<'_>]) -> bool {
    leased.try_now(charges, Intent::Take, &mut Verdicts::new())
}

fn left(store: &impl Store, charge: &Charge<'_>) -> u64 {
    let peek = Charge { cost: 0, ..*charge };
    block_on(store.settle(&[peek], Intent::Look)).expect("a verdict")[0].remaining
}

fn accounted(ledger: Ledger) {
    let Ledger { granted, spent, held, returned, expired, .. } = ledger;
    assert_eq!(granted, spent + held + returned + expired, "{ledger:?}");
}

#[test]
fn what_is_leased_is_spent_without_a_call_or_an_allocation() {
    let (_, _, leased) = fleet();
    let limit = limit(1_000_000);
    let charge = Charge::new(key("ann", 0), &limit, 1);
    warm_up(&leased, &charge);
    let (calls, bytes) = (leased.ledger().calls, held_bytes());
    let mut verdicts = Verdicts::new();
    for _ in 0..20 {
        assert!(leased.try_now(&[charge], Intent::Take, &mut verdicts));
    }
    assert_eq!((leased.ledger().calls, held_bytes()), (calls, bytes));
    accounted(leased.ledger());
}

#[test]
fn units_are_not_spent_after_their_time_and_go_back() {
    let (clock, shared, leased) = fleet();
    let limit = limit(100_000);
    let charge = Charge::new(key("ann", 0), &limit, 1);
    warm_up(&leased, &charge);
    clock.advance_us(937_499);
    assert!(try_now(&leased, &[charge]));
    clock.advance_us(1);
    assert!(!try_now(&leased, &[charge]), "the node may have been stopped for a second");
    let old = leased.ledger().held;
    leased.sweep();
    block_on(leased.tend());
    assert_eq!(leased.ledger().returned, old);
    block_on(leased.recall_all());
    clock.advance_us(60_000_000);
    assert_eq!(left(&shared, &Charge { limit: &limit, ..charge }), limit.burst());
    accounted(leased.ledger());
}

#[test]
fn all_that_is_left_goes_back_on_shutdown() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        let (_, shared, leased) = fleet();
        let limit = Limit::new(algorithm, 100_000, Window::seconds(3600)).expect("a limit");
        let charge = Charge::new(key("ann", 0), &limit, 1);
        let used = warm_up(&leased, &charge);
        assert!(left(&shared, &charge) < 100_000 - used);
        assert_eq!(left(&leased, &charge), 100_000 - used, "a look sees through this node's leases");
        block_on(leased.recall_all());
        assert_eq!(left(&shared, &charge), 100_000 - used);
        assert_eq!(leased.ledger().held, 0);
        accounted(leased.ledger());
    }
}

#[test]
fn a_changed_limit_recalls_what_was_leased_under_the_old_one() {
    let (_, shared, leased) = fleet();
    let hour =
        |requests| Limit::new(Algorithm::FixedWindow, requests, Window::seconds(3600)).expect("a limit");
    let (old, lowered) = (hour(100_000), hour(150));
    let charge = Charge::new(key("ann", 0), &old, 1);
    let used = warm_up(&leased, &charge);
    let charge = Charge { limit: &lowered, ..charge };
    assert!(!try_now(&leased, &[charge]));
    block_on(leased.tend());
    assert_eq!((leased.ledger().held, left(&shared, &charge)), (0, 150_u64.saturating_sub(used)));
    accounted(leased.ledger());
}

#[test]
fn a_request_spends_all_its_charges_or_none() {
    let (_, _, leased) = fleet();
    let limit = limit(1_000_000);
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(|name| Charge::new(key(name, 0), &limit, 1));
    warm_up(&leased, &ann);
    let before = leased.ledger();
    assert!(!try_now(&leased, &[ann, bob]), "nothing is leased of the second");
    assert_eq!(leased.ledger(), before);
    assert!(!try_now(&leased, &[ann, Charge { cost: before.held + 1, ..ann }, eve]));
    assert_eq!(leased.ledger(), before);
    assert!(try_now(&leased, &[ann, Charge { cost: 2, ..ann }]));
    assert_eq!(leased.ledger().spent, before.spent + 3);
    accounted(leased.ledger());
}

#[test]
fn a_node_that_holds_what_is_missing_returns_it_first() {
    let (_, _, leased) = fleet();
    let limit = Limit::new(Algorithm::FixedWindow, 1_000, Window::seconds(3600)).expect("a limit");
    let charge = Charge::new(key("ann", 0), &limit, 1);
    let used = warm_up(&leased, &charge);
    assert!(take(&leased, &Charge { cost: 1_000 - used, ..charge }), "{:?}", leased.ledger());
    assert!(!take(&leased, &charge));
    accounted(leased.ledger());
}

#[test]
fn many_threads_of_many_nodes_admit_the_limit_and_not_a_unit_more() {
    let clock = VirtualClock::new();
    let shared = Arc::new(store(1_000, &clock));
    let limit = Limit::new(Algorithm::FixedWindow, 20_000, Window::seconds(3600)).expect("a limit");
    let nodes: Vec<_> = (0..3).map(|_| node(&shared, &clock)).collect();
    let admitted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|number: usize| {
                let (leased, limit) = (&nodes[number % 3], &limit);
                scope.spawn(move || {
                    let charge = Charge::new(key("ann", 0), limit, 1);
                    let mut admitted = 0;
                    for _ in 0..5_000 {
                        admitted += u64::from(take(leased, &charge));
                        block_on(leased.tend());
                    }
                    admitted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it finishes")).sum()
    });
    let ledgers: Vec<_> = nodes.iter().map(Leased::ledger).collect();
    let held: u64 = ledgers.iter().map(|ledger| ledger.held + ledger.expired).sum();
    assert!(admitted + held <= 20_000 && admitted + held >= 19_900, "{admitted} admitted, {held} held");
    assert!(ledgers.iter().any(|ledger| ledger.spent > 1_000), "{ledgers:?}");
    ledgers.into_iter().for_each(accounted);
}

/// Returns the bytes per key at several sizes of a store, on average.
fn bytes_per_key(store: &impl Store) -> isize {
    let limit = limit(1_000);
    let before = held_bytes();
    let mut per_key = Vec::new();
    for number in 1..60_000 {
        let charge = Charge::new(key("key", number), &limit, 1);
        block_on(store.settle(&[charge], Intent::Take)).expect("a verdict");
        if number % 1_000 == 0 {
            per_key.push((held_bytes() - before) / number.cast_signed());
        }
    }
    per_key.iter().sum::<isize>() / per_key.len().cast_signed()
}

#[test]
fn a_lease_takes_at_most_96_bytes_more_than_a_counter_in_memory() {
    let (clock, _, leased) = fleet();
    let plain = bytes_per_key(&store(100_000, &clock));
    let more = bytes_per_key(&leased) - plain;
    println!("a key takes {plain} bytes in the memory store, and {more} more with a lease");
    // In place of a counter in memory there is the lease, so the bound is on the difference.
    assert!(more - plain <= 96, "{more} bytes, where the memory store takes {plain}");
}

/// Leases over the memory store, on a node whose clock is the store's.
pub(crate) struct LeasedWorld {
    clock: VirtualClock,
    store: LeasedStore<MemoryStore>,
}

impl LeasedWorld {
    pub(crate) fn new() -> Self {
        let clock = VirtualClock::new();
        clock.advance_us(3_141_592);
        let longest = Duration::from_millis(100);
        let config = LeaseConfig { longest, ..LeaseConfig::new(Arc::new(clock.clone())) };
        Self { store: LeasedStore::new(store(100_000, &clock), config), clock }
    }
}

impl World for LeasedWorld {
    type Store = LeasedStore<MemoryStore>;

    fn store(&self) -> &Self::Store {
        &self.store
    }

    fn now(&self) -> Micros {
        self.clock.now()
    }

    fn set_now(&self, now: Micros) {
        self.clock.set(now);
    }

    fn key(&self, home: &str, name: &str) -> Key {
        SEED.text(home).of_limit(SEED.texts([home, name]).mark)
    }

    /// Takes and returns what is due.
    fn upheaval(&mut self) {
        self.store.sweep();
        block_on(self.store.tend());
    }
}
