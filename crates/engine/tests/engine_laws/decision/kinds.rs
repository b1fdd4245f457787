//! What may be cloned, sent and shared.

use std::time::Duration;

use tidegate::{
    Acquired, BuildError, Builder, Decision, Domain, Explanation, Limiter, Permit, Problems, Request, Rule,
    per_minute,
};

fn is_shared<T: Send + Sync + Unpin>() {}
fn is_cloned<T: Clone>() {}
fn is_static<T: 'static>() {}
fn is_sent<T: Send>(_: &T) {}

#[test]
fn everything_can_be_sent_and_shared() {
    is_shared::<Limiter>();
    is_shared::<Builder>();
    is_shared::<Decision>();
    is_shared::<Permit>();
    is_shared::<Acquired>();
    is_shared::<Request<'_>>();
    is_shared::<Explanation>();
    is_shared::<Problems>();
    is_shared::<BuildError>();
    is_static::<(Limiter, Decision, Permit)>();
    is_cloned::<(Limiter, Decision, Request<'_>, Explanation)>();
}

#[test]
fn everything_to_await_can_be_awaited_on_another_thread() {
    let limiter = Limiter::builder().build().expect("no rules are good rules");
    let request = Request::new("d", [("k", "v")]);
    is_sent(&limiter.check(&request));
    is_sent(&limiter.peek(&request));
    is_sent(&limiter.refund(&request));
    is_sent(&limiter.acquire(&request));
    is_sent(&limiter.until_ready(&request, Duration::from_secs(1)));
}

#[test]
fn a_decision_outlives_the_rules_it_was_made_under() {
    let (limiter, _) = crate::support::limiter_of(Domain::new("d").rule(Rule::by("k").limit(per_minute(3))));
    let decision = limiter.check_now(&crate::support::by("v"));
    let copy = decision.clone();
    limiter.reload().expect("rules in code are good again");
    drop(limiter);
    assert_eq!(decision.to_string(), "allowed by k (minute): 2 of 3 left");
    drop(decision);
    assert_eq!(
        std::thread::spawn(move || copy.to_string()).join().unwrap(),
        "allowed by k (minute): 2 of 3 left"
    );
}

#[test]
fn decisions_may_be_kept_by_the_thousand() {
    let (limiter, _) = crate::support::limiter_of(Domain::new("d").rule(Rule::by("k").limit(per_minute(3))));
    let kept: Vec<Decision> = (0..5_000)
        .map(|number| {
            if number % 1_000 == 0 {
                limiter.reload().expect("rules in code are good again");
            }
            limiter.check_now(&crate::support::by(&number.to_string()))
        })
        .collect();
    assert!(kept.iter().all(|decision| decision.remaining() == Some(2)));
    assert!(kept.iter().all(|decision| decision.decided_by().is_some_and(|limit| limit.rule == "k")));
}

#[test]
fn clones_are_the_same_limiter() {
    let (limiter, _) = crate::support::limiter_of(Domain::new("d").rule(Rule::by("k").limit(per_minute(1))));
    let clone = limiter.clone();
    drop(limiter.check_now(&crate::support::by("v")));
    drop(limiter);
    assert!(!clone.check_now(&crate::support::by("v")).allowed());
}
