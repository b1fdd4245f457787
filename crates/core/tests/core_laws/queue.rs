//! Requests leave the queue of a leaky bucket evenly spaced and in order.

use tidegate_core::{Algorithm, LeakyMode, Limit, Micros, Outcome, Window};
use tidegate_testkit::schedule::{Mix, Schedule, limits, schedules};

use crate::counter::{Counter, Operation};
use crate::for_all;

/// A request that passed, at once or after it was held.
#[derive(Debug)]
struct Passed {
    arrived: Micros,
    left: Micros,
    cost: u64,
}

/// Runs a schedule in which every charge can be held.
fn pass(limit: &Limit, schedule: &Schedule) -> Vec<Passed> {
    let mut counter = Counter::new(limit, schedule.start);
    let mut passed = Vec::new();
    for step in &schedule.steps {
        let Operation::Charge { cost: cost @ 1.., .. } = counter.arrive(step) else { continue };
        let wait_us = match counter.charge(cost, true).outcome {
            Outcome::Allowed => 0,
            Outcome::Held { wait_us } => wait_us,
            Outcome::Denied { .. } => continue,
        };
        passed.push(Passed { arrived: counter.now, left: counter.now.plus(wait_us), cost });
    }
    passed
}

fn all_queues(law: impl Fn(&Limit, &[Passed])) {
    let inputs = (limits::leaky_queue(), schedules(Mix::Charges, 60));
    for_all(300, inputs, |(limit, schedule)| law(&limit, &pass(&limit, &schedule)));
}

/// Returns the microseconds in which `units` drain, rounded down.
fn leak_us(limit: &Limit, units: u128) -> u128 {
    units * u128::from(limit.period_us()) / u128::from(limit.requests())
}

#[test]
fn requests_leave_in_the_order_they_came() {
    all_queues(|_, passed| {
        assert!(passed.is_sorted_by_key(|passed| passed.left), "{passed:?}");
    });
}

/// Between any two requests lies the time in which the first and all between them drain. This is not a sum
/// of rounded times, so nothing drifts, however many requests there are.
#[test]
fn requests_leave_evenly_spaced() {
    all_queues(|limit, passed| {
        for (index, first) in passed.iter().enumerate() {
            let mut units = 0;
            for pair in passed[index..].windows(2) {
                units += u128::from(pair[0].cost);
                let apart_us = pair[1].left.since(first.left);
                assert!(u128::from(apart_us) >= leak_us(limit, units), "{first:?} and {:?}", pair[1]);
            }
        }
    });
}

#[test]
fn nobody_is_held_for_longer_than_the_rest_of_a_full_bucket_takes() {
    all_queues(|limit, passed| {
        for request in passed {
            let others = u128::from(limit.burst() - request.cost);
            let held_us = u128::from(request.left.since(request.arrived));
            assert!(held_us <= leak_us(limit, others) + 1, "{request:?}");
        }
    });
}

/// Three per second: a third of a second apart, each time rounded up on its own.
#[test]
fn a_wave_leaves_at_the_steady_rate() {
    let algorithm = Algorithm::LeakyBucket { burst: 6, mode: LeakyMode::Queue };
    let limit = Limit::new(algorithm, 3, Window::seconds(1)).unwrap();
    let mut counter = Counter::new(&limit, Micros(1_700_000_000_000_000));
    let outcomes: Vec<_> = (0..7).map(|_| counter.charge(1, true).outcome).collect();
    let held = [333_334, 666_667, 1_000_000, 1_333_334, 1_666_667].map(|wait_us| Outcome::Held { wait_us });
    assert_eq!(outcomes[0], Outcome::Allowed);
    assert_eq!(outcomes[1..6], held);
    assert_eq!(outcomes[6], Outcome::Denied { retry_after_us: 333_334 });
}

/// A request that cannot be held passes only an empty bucket, and is told when the bucket will be empty.
#[test]
fn who_cannot_be_held_is_denied_for_as_long_as_they_would_have_been() {
    all_queues(|limit, _| {
        let mut counter = Counter::new(limit, Micros(1 << 50));
        if !counter.ever_admits() {
            return;
        }
        assert_eq!(counter.look(0, false).remaining, limit.burst());
        assert_eq!(counter.charge(limit.burst(), false).outcome, Outcome::Allowed);
        assert_eq!(counter.look(0, false).remaining, 0);
        let full_us = counter.longest_wait_us();
        let denied = Outcome::Denied { retry_after_us: full_us };
        assert_eq!(counter.look(1, false).outcome, denied);
        counter.now = counter.now.plus(full_us - 1);
        assert!(!counter.charge(1, false).allowed());
        counter.now = counter.now.plus(1);
        assert!(counter.charge(1, false).allowed());
    });
}
