//! Reloads while many threads decide.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tidegate::{Limiter, Request};

use super::Rules;
use crate::support::wait_until;

const THREADS: usize = 4;

/// Two rules that always have the same number.
fn twins(requests: u64) -> String {
    let rule = |key: &str| {
        format!("{{key: {key}, limits: [{{requests: {requests}, per: hour, algorithm: fixed_window}}]}}")
    };
    format!("domain: d\ndescriptors: [{}, {}]\n", rule("a"), rule("b"))
}

/// Checks without pause that the twins agree and nothing is denied; answers how many decisions.
fn decide_until(done: &AtomicBool, limiter: &Limiter) -> u64 {
    let request = Request::new("d", [("a", "v")]).and([("b", "v")]);
    let mut decisions = 0;
    while !done.load(Ordering::Relaxed) {
        let decision = limiter.check_now(&request);
        assert!(decision.allowed(), "{decision}");
        let requests: Vec<u64> = decision.limits().map(|limit| limit.limit.requests()).collect();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0], requests[1]);
        decisions += 1;
    }
    decisions
}

/// Runs `change` while threads decide. Afterwards every decision is in the counters: none was lost
/// to a reload, none counted twice.
fn under_load(limiter: &Limiter, change: impl FnOnce()) {
    let (done, decisions) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| decisions.fetch_add(decide_until(&done, limiter), Ordering::Relaxed));
        }
        change();
        done.store(true, Ordering::Relaxed);
    });
    let decisions = decisions.into_inner();
    println!("{decisions} decisions");
    let peek = Request::new("d", [("a", "v")]).and([("b", "v")]).cost(0);
    let decision = limiter.peek_now(&peek);
    let used = decision.limits().map(|limit| limit.limit.requests() - limit.remaining);
    assert_eq!(used.collect::<Vec<_>>(), [decisions; 2]);
}

#[test]
fn no_decision_sees_a_mixture_and_none_is_denied_or_lost() {
    let rules = Rules::new();
    rules.write("r.yaml", &twins(1_000_000_000));
    let limiter = rules.unwatched(rules.path("r.yaml"));
    under_load(&limiter, || {
        for round in 1..=300 {
            rules.write("r.yaml", &twins(1_000_000_000 + round));
            limiter.reload().expect("good rules");
        }
    });
    assert_eq!(limiter.generation(), 301);
}

#[test]
fn nor_if_the_file_is_watched_and_bad_at_times() {
    let rules = Rules::new();
    rules.write("r.yaml", &twins(1_000_000_000));
    let limiter = rules.watched(rules.path("r.yaml"));
    under_load(&limiter, || {
        for round in 1..=3 {
            rules.write("r.yaml", "domain: [");
            wait_until("the bad file is refused", || limiter.refused_rules().is_some());
            rules.write("r.yaml", &twins(1_000_000_000 + round));
            wait_until("it is repaired", || limiter.refused_rules().is_none());
        }
    });
    assert_eq!(limiter.generation(), 4);
}

#[test]
fn reloads_at_the_same_time_do_not_overtake_each_other() {
    let rules = Rules::new();
    rules.write("r.yaml", &twins(1));
    let limiter = rules.unwatched(rules.path("r.yaml"));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..50 {
                    let before = limiter.generation();
                    limiter.reload().expect("good rules");
                    assert!(limiter.generation() > before);
                }
            });
        }
    });
    assert_eq!(limiter.generation(), 1 + 50 * THREADS as u64);
}
