//! Limits that requests bring along.

use std::time::Duration;

use tidegate::{Domain, InlineError, Request, Rule, per, per_day, per_minute};

use crate::support::{limiter_of, names, passes};

fn open_domain() -> Domain {
    Domain::new("d").inline_limits(2).rule(Rule::by("k").limit(per_minute(5)))
}

#[test]
fn brought_limits_stand_in_for_the_rules() {
    let (limiter, _) = limiter_of(open_domain());
    let limits = limiter.inline_limits("d", &[per_minute(2), per_day(50)]).expect("they are allowed");
    let request = Request::new("d", [("k", "ann")]).limits(&limits);
    let decision = limiter.check_now(&request);
    assert_eq!(names(&decision), ["inline (minute)", "inline (day)"]);
    assert_eq!(passes(&limiter, &request, 9), 1);
    assert_eq!(passes(&limiter, &Request::new("d", [("k", "ann")]), 9), 5, "the rule's counter is another");
    assert_eq!(passes(&limiter, &Request::new("d", [("k", "bob")]).limits(&limits), 9), 2);
}

#[test]
fn each_descriptor_has_its_own_and_all_are_charged_or_none() {
    let (limiter, _) = limiter_of(open_domain());
    let (two, one) =
        (limiter.inline_limits("d", &[per_minute(2)]), limiter.inline_limits("d", &[per_minute(1)]));
    let (two, one) = (two.expect("allowed"), one.expect("allowed"));
    let first = Request::new("d", [("a", "1")]).limits(&two);
    let both = first.clone().and([("b", "1")]).limits(&one).and([("k", "ann")]);
    let decision = limiter.check_now(&both);
    assert_eq!(names(&decision), ["inline (minute)", "inline (minute)", "k (minute)"]);
    let limits: Vec<_> = decision.limits().map(|limit| limit.limit.requests()).collect();
    assert_eq!(limits, [2, 1, 5]);
    assert!(!limiter.check_now(&both).allowed());
    assert_eq!(limiter.peek_now(&first.cost(0)).remaining(), Some(1), "a denial takes nothing");
}

#[test]
fn a_changed_number_keeps_its_counter() {
    let (limiter, _) = limiter_of(open_domain());
    let ask = |requests| {
        let limits = limiter.inline_limits("d", &[per_minute(requests)]).expect("allowed");
        limiter.check_now(&Request::new("d", [("a", "1")]).limits(&limits)).remaining()
    };
    assert_eq!((ask(10), ask(3)), (Some(9), Some(1)));
}

#[test]
fn a_domain_says_whether_and_how_many_and_overrides_are_always_allowed() {
    let (limiter, clock) = limiter_of(Domain::new("closed").rule(Rule::by("k")));
    let refused = limiter.inline_limits("closed", &[per_minute(1)]).expect_err("it is closed");
    assert_eq!(refused, InlineError::NotAllowed { domain: "closed".to_owned() });
    for requests in 0..1_000 {
        limiter.limit_override("closed", per_minute(requests)).expect("a thousand is the usual bound");
    }
    let refused = limiter.limit_override("closed", per_minute(1_000)).expect_err("that is one more");
    assert_eq!(refused, InlineError::TooMany { domain: "closed".to_owned(), most: 1_000 });
    limiter.limit_override("closed", per_minute(7)).expect("known ones stay");
    clock.advance_us(120_000_001);
    limiter.limit_override("closed", per_minute(1_000)).expect("those out of use made room");
}

#[test]
fn numbers_that_make_no_limit_are_refused_with_the_reason() {
    let (limiter, _) = limiter_of(open_domain());
    let refused = limiter.inline_limits("d", &[per(1, Duration::ZERO)]).expect_err("no window");
    assert!(refused.to_string().contains("the window must be at least 1"), "{refused}");
    let refused = limiter.inline_limits("d", &[per_minute(1), per_minute(2)]).expect_err("one name twice");
    assert!(refused.to_string().contains("two limits have this name"), "{refused}");
}

#[test]
fn an_unknown_domain_limits_nothing() {
    let (limiter, _) = limiter_of(open_domain());
    // Not even a place in the list of those in use: there is no end to domains that are made up.
    assert!(limiter.limit_override("nowhere", per_minute(0)).expect("allowed").is_none());
    let limits = limiter.limit_override("d", per_minute(0)).expect("allowed").expect("a domain");
    let decision = limiter.check_now(&Request::new("nowhere", [("k", "ann")]).limits(&limits));
    assert!(decision.allowed() && decision.decided_by().is_none());
}

#[test]
fn explain_and_refund_know_them() {
    let (limiter, _) = limiter_of(open_domain());
    let limits = limiter.inline_limits("d", &[per_minute(2)]).expect("allowed");
    let request = Request::new("d", [("k", "ann")]).limits(&limits);
    assert!(limiter.check_now(&request).allowed());
    let explanation = limiter.explain(&request);
    assert_eq!(explanation.decided_by.as_deref(), Some("inline (minute)"));
    assert_eq!(explanation.descriptors[0].limits[0].remaining_before, 1);
    limiter.refund_now(&request);
    assert_eq!(limiter.peek_now(&request.cost(0)).remaining(), Some(2));
}
