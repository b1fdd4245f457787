//! What a decision costs the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidegate_core::{Limit, VirtualClock};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use crate::limits::{self, PERIOD_US, fixed_window, leaky_bucket, sliding_window, token_bucket};
use crate::world::{key, store};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
    static MOST_HELD_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(allocations: u64, bytes: isize) {
    // A thread that is ending allocates too, and is not counted then.
    let _ = ALLOCATIONS.try_with(|all| all.set(all.get() + allocations));
    let _ = HELD_BYTES.try_with(|all| {
        all.set(all.get() + bytes);
        MOST_HELD_BYTES.try_with(|most| most.set(most.get().max(all.get())))
    });
}

#[expect(unsafe_code, reason = "an allocator is; this one hands everything on to the system's")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size().cast_signed());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -layout.size().cast_signed());
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size.cast_signed() - layout.size().cast_signed());
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// What this thread has allocated and not freed, or less than nothing if it freed what others had.
pub(crate) fn held_bytes() -> isize {
    HELD_BYTES.get()
}

/// The most this thread has ever held.
pub(crate) fn most_held_bytes() -> isize {
    MOST_HELD_BYTES.get()
}

/// How often the heap was used while a request was made again and again.
fn allocations(store: &MemoryStore, clock: &VirtualClock, request: &[Charge<'_>]) -> u64 {
    let once = || {
        clock.advance_us(PERIOD_US / 50);
        let mut verdicts = Verdicts::new();
        store.settle_now(request, Intent::Take, &mut verdicts);
        assert!(verdicts.iter().all(tidegate_core::Verdict::allowed), "{verdicts:?}");
    };
    (0..300).for_each(|_| once());
    let before = ALLOCATIONS.get();
    (0..1_000).for_each(|_| once());
    ALLOCATIONS.get() - before
}

fn request<'a>(name: &str, limits: impl IntoIterator<Item = &'a Limit>) -> Vec<Charge<'a>> {
    let charge = |(number, limit)| Charge::new(key(name, number), limit, 1);
    limits.into_iter().enumerate().map(charge).collect()
}

#[test]
fn an_allowed_decision_on_a_known_key_allocates_nothing() {
    let clock = VirtualClock::new();
    let store = store(100_000, &clock);
    let limits = [
        fixed_window(1_000),
        sliding_window(1_000),
        token_bucket(1_000, 1_000),
        leaky_bucket(1_000, 1_000),
        limits::queue(1_000, 1_000),
        limits::calendar_day(10_000_000),
        limits::sub_windows(1_000),
        // It keeps a stamp per request, in a ring that grows to what is needed and then stays.
        limits::sliding_log(1_000),
    ];
    for limit in &limits {
        assert_eq!(allocations(&store, &clock, &request("one", [limit])), 0, "1 charge of {limit:?}");
        let four = request("four", [limit; 4]);
        assert_eq!(allocations(&store, &clock, &four), 0, "4 charges of {limit:?}");
    }
    let mixed = request("mixed", limits.iter().take(4));
    assert_eq!(allocations(&store, &clock, &mixed), 0, "4 charges of different limits");
}

#[test]
fn taking_and_releasing_a_slot_of_a_known_key_allocates_nothing() {
    let store = store(100_000, &VirtualClock::new());
    let limit = limits::concurrency(10);
    let key = key("slots", 0);
    let slot = |lease| Charge { lease, ..Charge::new(key, &limit, 1) };
    let once = |lease| {
        let mut verdicts = Verdicts::new();
        store.settle_now(&[slot(lease)], Intent::Take, &mut verdicts);
        assert!(verdicts[0].allowed());
        assert!(lease < 5 || store.release_now(&slot(lease - 5)));
    };
    (0..100).for_each(once);
    let before = ALLOCATIONS.get();
    (100..200).for_each(once);
    assert_eq!(ALLOCATIONS.get() - before, 0);
}

#[test]
fn a_denied_decision_on_a_known_key_allocates_nothing() {
    let store = store(100_000, &VirtualClock::new());
    let limits = [
        fixed_window(5),
        sliding_window(5),
        token_bucket(5, 5),
        leaky_bucket(5, 5),
        limits::sub_windows(5),
        limits::sliding_log(5),
    ];
    let all = request("denied", &limits);
    let settle = |charges: &[Charge<'_>]| {
        let mut verdicts = Verdicts::new();
        store.settle_now(charges, Intent::Take, &mut verdicts);
        verdicts.iter().filter(|verdict| !verdict.allowed()).count()
    };
    for charge in &all {
        settle(&[Charge { cost: 5, ..*charge }]);
    }
    let before = ALLOCATIONS.get();
    for charge in &all {
        assert_eq!(settle(&[*charge]), 1, "{:?}", charge.limit);
    }
    assert_eq!(settle(&all[..4]), 4);
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
