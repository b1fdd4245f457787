//! Limits that requests bring along.

use std::time::Duration;

use tidegate::{Domain, InlineError, LimitSpec, Limiter, Request, Rule, per, per_day, per_minute};

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
fn a_changed_number_keeps_the_counter_of_a_name_and_that_of_an_envoy_descriptor() {
    let (limiter, _) = limiter_of(open_domain());
    let ask = |limits| limiter.check_now(&Request::new("d", [("a", "1")]).limits(&limits)).remaining();
    let named = |requests| limiter.inline_limits("d", &[per_minute(requests).named("n")]).expect("allowed");
    assert_eq!((ask(named(30)), ask(named(20))), (Some(29), Some(18)));
    let (limiter, _) = limiter_of(open_domain());
    let ask = |limits| limiter.check_now(&Request::new("d", [("a", "1")]).limits(&limits)).remaining();
    let envoy = |requests| {
        limiter.limit_override("d", per_minute(requests), ("a", "1")).expect("allowed").expect("a domain")
    };
    assert_eq!((ask(envoy(30)), ask(envoy(20))), (Some(29), Some(18)));
}

#[test]
fn limits_of_one_window_are_told_apart_by_as_little_as_it_takes() {
    let (limiter, _) = limiter_of(Domain::new("d").inline_limits(10));
    let titles = |limits: &[LimitSpec]| {
        let limits = limiter.inline_limits("d", limits).expect("allowed");
        let decision = limiter.check_now(&Request::new("d", [("a", "1")]).limits(&limits));
        let titles = decision.limits().map(|limit| limit.name.to_owned());
        titles.collect::<Vec<_>>()
    };
    assert_eq!(titles(&[per_minute(20), per_day(40)]), ["minute", "day"]);
    assert_eq!(titles(&[per_minute(20), per_minute(40), per_day(40)]), ["20/minute", "40/minute", "day"]);
    assert_eq!(titles(&[per_minute(20), per_day(40).named("minute")]), ["20/minute", "minute"]);
    let [calm, quick] = [2, 3].map(|burst| per_minute(20).burst(burst));
    let told = ["20/minute default", "20/minute token_bucket burst 2", "20/minute token_bucket burst 3"];
    assert_eq!(titles(&[per_minute(20), calm, quick]), told);
}

#[test]
fn a_domain_says_whether_and_how_many_and_overrides_are_always_allowed() {
    let (limiter, clock) = limiter_of(Domain::new("closed").rule(Rule::by("k")));
    let refused = limiter.inline_limits("closed", &[per_minute(1)]).expect_err("it is closed");
    assert_eq!(refused, InlineError::NotAllowed { domain: "closed".to_owned() });
    let bring = |requests| limiter.limit_override("closed", per_minute(requests), ("k", "ann"));
    for requests in 0..100 {
        bring(requests).expect("a tenth of a thousand is the usual bound of one first entry");
    }
    let refused = bring(1_000).expect_err("that is one more");
    let (domain, scope) = ("closed".to_owned(), Some("k=ann".to_owned()));
    assert_eq!(refused, InlineError::TooMany { domain, scope, most: 100 });
    bring(7).expect("known ones stay");
    clock.advance_us(120_000_001);
    bring(1_000).expect("those out of use made room");
}

#[test]
fn numbers_that_make_no_limit_are_refused_with_the_reason() {
    let (limiter, _) = limiter_of(open_domain());
    let refused = limiter.inline_limits("d", &[per(1, Duration::ZERO)]).expect_err("no window");
    assert!(refused.to_string().contains("the window must be at least 1"), "{refused}");
    let [one, two] = [1, 2].map(|requests| per_minute(requests).named("n"));
    let refused = limiter.inline_limits("d", &[one, two]).expect_err("one name twice");
    assert!(refused.to_string().contains("two limits have this name"), "{refused}");
    let twice = [per_minute(20), per(20, Duration::from_mins(1))];
    let refused = limiter.inline_limits("d", &twice).expect_err("one limit twice");
    assert!(refused.to_string().contains("the same limit is there twice"), "{refused}");
}

#[test]
fn an_unknown_domain_limits_nothing() {
    let (limiter, _) = limiter_of(open_domain());
    // Not even a place in the list of those in use: there is no end to domains that are made up.
    assert!(limiter.limit_override("nowhere", per_minute(0), ("k", "ann")).expect("allowed").is_none());
    let limits =
        limiter.limit_override("d", per_minute(0), ("k", "ann")).expect("allowed").expect("a domain");
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

/// Brings a limit of this number with a request of this route.
fn bring(limiter: &Limiter, route: &str, requests: u64, cost: u64) -> Result<(), InlineError> {
    limiter.inline_limits_of("d", &[per_minute(requests)], ("route", route), cost).map(drop)
}

#[test]
fn requests_of_one_scope_cannot_use_up_the_limits_of_a_domain() {
    let (limiter, clock) = limiter_of(Domain::new("d").inline_limits(1_000));
    let brought = (0..5_000).filter(|requests| bring(&limiter, "greedy", *requests, 1).is_ok()).count();
    assert_eq!(brought, 100, "a tenth");
    let refused = bring(&limiter, "greedy", 9_999, 1).expect_err("it is full");
    assert!(
        refused.to_string().contains("100 different limits from requests with route=greedy"),
        "{refused}"
    );
    for route in 0..2_000 {
        bring(&limiter, &format!("other-{route}"), 10_000 + route, 1).expect("others have room");
    }
    assert_eq!(limiter.inline_limits_in_use("d"), 1_000, "the domain's bound holds");
    clock.advance_us(120_000_001);
    bring(&limiter, "greedy", 9_999, 1).expect("those out of use make room");
}

#[test]
fn a_limit_that_gave_way_has_its_counter_still_and_one_in_use_stays() {
    let (limiter, _) = limiter_of(Domain::new("d").inline_limits(20));
    let ask = || {
        let limits = limiter.inline_limits_of("d", &[per_minute(50)], ("route", "a"), 1).expect("allowed");
        limiter.check_now(&Request::new("d", [("route", "a")]).limits(&limits)).remaining()
    };
    assert_eq!(ask(), Some(49));
    for route in 0..1_000 {
        bring(&limiter, &format!("made-up-{route}"), 100 + route, 1).expect("others give way");
    }
    assert_eq!((ask(), limiter.inline_limits_in_use("d")), (Some(48), 20));
}

#[test]
fn a_request_that_only_looks_takes_no_place_among_the_limits_in_use() {
    let (limiter, _) = limiter_of(Domain::new("d").inline_limits(1_000));
    for requests in 0..5_000 {
        bring(&limiter, "greedy", requests, 0).expect("it looks");
    }
    assert_eq!(limiter.inline_limits_in_use("d"), 0);
}

/// Limits cost memory, and the operator's bound on it counts for all domains together.
#[test]
fn all_domains_together_have_no_more_limits_in_use_than_the_process_may_hold() {
    let domains = ["d", "e", "f"].map(|name| Domain::new(name).inline_limits(1_000_000));
    let builder = domains.into_iter().fold(Limiter::builder(), tidegate::Builder::domain);
    let limiter = builder.max_inline_limits(500).build().expect("good rules");
    let kept = limiter.inline_limits("d", &[per_minute(5)]).expect("allowed");
    let request = Request::new("d", [("a", "1")]).limits(&kept);
    assert_eq!(passes(&limiter, &request, 9), 5);
    for (number, domain) in (0..3_000_u64).zip(["d", "e", "f"].into_iter().cycle()) {
        let pair = [per_minute(number + 10), per_day(number + 10)];
        let route = format!("route-{number}");
        limiter.inline_limits_of(domain, &pair, ("route", &route), 1).expect("there is always room");
        assert!(limiter.inline_limits_held() <= 500 + 3 * 2, "{}", limiter.inline_limits_held());
    }
    assert!(limiter.inline_limits_held() > 400);
    let again = limiter.inline_limits("d", &[per_minute(5)]).expect("allowed");
    assert_eq!(passes(&limiter, &Request::new("d", [("a", "1")]).limits(&again), 9), 0, "its counter stays");
}
