//! Slots of concurrency limits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tidegate::{
    Acquired, Decision, Domain, Limiter, Permit, Request, Rule, SlotId, VirtualClock, per_minute,
};

use crate::support::{by, limited_by, limiter_of};

const TIMEOUT_US: u64 = 60_000_000;

fn at_most(max: u64) -> (Limiter, VirtualClock) {
    let rule = Rule::by("k").concurrency(max, Duration::from_micros(TIMEOUT_US));
    limiter_of(Domain::new("d").rule(rule))
}

fn permit(limiter: &Limiter, request: &Request<'_>) -> Permit {
    match limiter.acquire_now(request) {
        Acquired::Permit(permit) => permit,
        Acquired::Denied(decision) => panic!("{decision}"),
    }
}

fn denial(limiter: &Limiter, request: &Request<'_>) -> Decision {
    match limiter.acquire_now(request) {
        Acquired::Permit(_) => panic!("it should be denied"),
        Acquired::Denied(decision) => decision,
    }
}

#[test]
fn no_more_than_the_limit_hold_a_slot_at_once() {
    let (limiter, _) = at_most(3);
    let mut held: Vec<Permit> = (0..3).map(|_| permit(&limiter, &by("v"))).collect();
    denial(&limiter, &by("v"));
    // Others have their own.
    let _other = permit(&limiter, &by("w"));
    for _ in 0..10 {
        held.pop();
        held.push(permit(&limiter, &by("v")));
        denial(&limiter, &by("v"));
    }
}

#[test]
fn a_permit_returns_its_slot_when_it_is_dropped() {
    let (limiter, _) = at_most(1);
    drop(permit(&limiter, &by("v")));
    // A permit nobody looks at is dropped at once.
    limiter.acquire_now(&by("v"));
    let held = permit(&limiter, &by("v"));
    denial(&limiter, &by("v"));
    std::thread::spawn(move || drop(held)).join().unwrap();
    drop(permit(&limiter, &by("v")));
}

#[test]
fn a_permit_returns_its_slot_when_its_holder_panics() {
    let (limiter, _) = at_most(1);
    let work = || {
        let _held = permit(&limiter, &by("v"));
        denial(&limiter, &by("v"));
        // Quietly: no message, no backtrace.
        std::panic::resume_unwind(Box::new("the work failed"));
    };
    assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    drop(permit(&limiter, &by("v")));
}

#[tokio::test]
async fn a_permit_returns_its_slot_when_its_task_is_cancelled() {
    let (limiter, _) = at_most(1);
    let holder = limiter.clone();
    let (held, is_held) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let _permit = holder.acquire(&by("v")).await.permit().expect("it is free");
        held.send(()).expect("the test waits");
        std::future::pending::<()>().await;
    });
    is_held.await.unwrap();
    denial(&limiter, &by("v"));
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    drop(permit(&limiter, &by("v")));
}

#[test]
fn a_slot_returns_by_itself_after_the_time_out() {
    let (limiter, clock) = at_most(1);
    let held = permit(&limiter, &by("v"));
    clock.advance_us(TIMEOUT_US - 1);
    denial(&limiter, &by("v"));
    clock.advance_us(1);
    let second = permit(&limiter, &by("v"));
    assert!(!held.renew_now(), "its slot is somebody else's now");
    // Dropping the first returns nothing that is the second's.
    drop(held);
    denial(&limiter, &by("v"));
    assert!(second.renew_now());
}

#[test]
fn renewing_starts_the_time_out_anew() {
    let (limiter, clock) = at_most(1);
    let held = permit(&limiter, &by("v"));
    for _ in 0..5 {
        clock.advance_us(TIMEOUT_US - 1);
        assert!(held.renew_now());
    }
    clock.advance_us(TIMEOUT_US - 1);
    denial(&limiter, &by("v"));
    clock.advance_us(1);
    assert!(!held.renew_now());
    drop(permit(&limiter, &by("v")));
}

#[test]
fn a_denial_says_to_ask_again_soon_and_a_slot_returns_at_its_time_out_at_the_latest() {
    let (limiter, clock) = at_most(2);
    let _first = permit(&limiter, &by("v"));
    clock.advance_us(10_000_000);
    let _second = permit(&limiter, &by("v"));
    let denied = denial(&limiter, &by("v"));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(denied.to_string(), "denied by k (concurrency): 0 of 2 left, retry after 1.0s");
    let limit = denied.decided_by().expect("a limit denied it");
    assert_eq!(limit.limit.to_string(), "concurrency, 2 at once, time-out minute");
    clock.advance_us(49_999_999);
    denial(&limiter, &by("v"));
    clock.advance_us(1);
    drop(permit(&limiter, &by("v")));
}

#[test]
fn two_limits_give_a_slot_each_or_none() {
    let domain = Domain::new("d")
        .rule(Rule::by("k").concurrency(2, Duration::from_mins(1)))
        .rule(Rule::by("l").concurrency(1, Duration::from_mins(1)));
    let (limiter, _) = limiter_of(domain);
    let both = by("v").and([("l", "v")]);
    let held = permit(&limiter, &both);
    for _ in 0..5 {
        let denied = denial(&limiter, &both);
        assert_eq!(denied.decided_by().map(|limit| limit.rule), Some("l"));
    }
    // None of the denied kept a slot of `k`.
    let alone = permit(&limiter, &by("v"));
    denial(&limiter, &by("v"));
    drop(held);
    denial(&limiter, &by("v").and([("l", "v")]).and([("k", "v")]));
    drop(alone);
    drop(permit(&limiter, &both));
}

#[test]
fn a_permit_holds_as_many_slots_as_its_cost() {
    let (limiter, _) = at_most(5);
    let three = permit(&limiter, &by("v").cost(3));
    denial(&limiter, &by("v").cost(3));
    let two = permit(&limiter, &by("v").cost(2));
    assert_eq!(denial(&limiter, &by("v").cost(6)).retry_after(), Some(Duration::MAX));
    drop(three);
    drop(permit(&limiter, &by("v").cost(3)));
    drop(two);
    drop(permit(&limiter, &by("v").cost(5)));
}

#[test]
fn the_same_descriptor_twice_holds_two_slots_and_renews_both() {
    let (limiter, clock) = at_most(2);
    let twice = by("v").and([("k", "v")]);
    let held = permit(&limiter, &twice);
    denial(&limiter, &by("v"));
    clock.advance_us(TIMEOUT_US / 2);
    assert!(held.renew_now());
    clock.advance_us(TIMEOUT_US / 2);
    denial(&limiter, &by("v"));
    drop(held);
    drop(permit(&limiter, &twice));
}

#[test]
fn where_no_concurrency_limit_applies_everybody_gets_a_permit() {
    let (limiter, _) = limiter_of(Domain::new("d").rule(Rule::by("k").limit(per_minute(1))));
    let permits: Vec<Permit> = (0..10).map(|_| permit(&limiter, &by("v"))).collect();
    assert!(permits.iter().all(Permit::renew_now));
    assert!(permit(&limiter, &Request::new("other", [("k", "v")])).renew_now());
    assert_eq!(limiter.stats().keys, 0);
}

#[test]
fn a_permit_may_outlive_every_handle_of_its_limiter() {
    let (limiter, _) = at_most(1);
    let held = permit(&limiter, &by("v"));
    drop(limiter);
    assert!(held.renew_now());
    drop(held);
}

#[test]
fn a_slot_held_through_a_reload_returns() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let write =
        |rule: &str| std::fs::write(&file, format!("domain: d\ndescriptors: [{{key: k{rule}}}]")).unwrap();
    write(", concurrency: {max: 1, timeout: 60s}");
    let clock = VirtualClock::new();
    let limiter = Limiter::builder().rules(&file).watch(false).clock(clock).build().expect("good rules");

    let held = permit(&limiter, &by("v"));
    write(", concurrency: {max: 2, timeout: 60s}");
    limiter.reload().expect("good rules");
    // A changed number keeps its counter: one more, not two.
    let second = permit(&limiter, &by("v"));
    denial(&limiter, &by("v"));
    assert!(held.renew_now());
    drop(held);
    let third = permit(&limiter, &by("v"));
    denial(&limiter, &by("v"));

    // While the rule is gone nobody is limited, and what returns then has returned.
    write("");
    limiter.reload().expect("good rules");
    drop(permit(&limiter, &by("v")));
    drop(second);
    write(", concurrency: {max: 2, timeout: 60s}");
    limiter.reload().expect("good rules");
    let _fourth = permit(&limiter, &by("v"));
    denial(&limiter, &by("v"));
    assert!(third.renew_now());
}

#[test]
fn threads_never_hold_more_than_the_limit_together() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (limiter, _) = at_most(3);
    let (holders, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    if let Acquired::Permit(permit) = limiter.acquire_now(&by("v")) {
                        most.fetch_max(holders.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 3);
    let _all: Vec<Permit> = (0..3).map(|_| permit(&limiter, &by("v"))).collect();
}

#[test]
fn a_detached_permit_is_renewed_and_released_by_its_slot_id_alone() {
    let (limiter, clock) = at_most(1);
    let permit = limiter.acquire_now(&by("ann")).permit().expect("the first one fits");
    assert_eq!(permit.timeout(), Some(Duration::from_micros(TIMEOUT_US)));
    let slot = permit.detach();
    assert!(limiter.acquire_now(&by("ann")).permit().is_none(), "the slot is still held");
    let guess = SlotId(slot.0.wrapping_add(1 << 20));
    assert!(!limiter.renew_now(&by("ann"), guess) && !limiter.release_now(&by("ann"), guess));

    clock.advance_us(50_000_000);
    assert!(limiter.renew_now(&by("ann"), slot));
    clock.advance_us(50_000_000);
    assert!(limiter.acquire_now(&by("ann")).permit().is_none(), "the renewal holds");
    assert!(limiter.release_now(&by("ann"), slot));
    assert!(!limiter.release_now(&by("ann"), slot), "once is enough");
    assert!(!limiter.renew_now(&by("ann"), slot));
    assert!(limiter.acquire_now(&by("ann")).permit().is_some());
}

#[test]
fn a_permit_of_a_request_without_limits_on_holders_has_no_time_out() {
    let (limiter, _) = limited_by(per_minute(1));
    let permit = limiter.acquire_now(&by("ann")).permit().expect("nothing denies it");
    assert_eq!(permit.timeout(), None);
}
