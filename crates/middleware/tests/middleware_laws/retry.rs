//! When a denial says to come back.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Acquired, Domain, Request, Rule, per_hour, per_minute};
use tidegate_middleware::Headers;

use crate::support::{START, any_story, header, headers, json, limiter};

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn retry_after_is_never_too_early_and_at_most_a_tenth_or_5_s_late(story in any_story()) {
        story.play(|request, decision, now| {
            let found = headers(Headers::default(), request, decision, now);
            let told = header(&found, "retry-after").map(|value| value.parse::<u64>().unwrap());
            let exact = decision.retry_after().filter(|exact| *exact != Duration::MAX);
            let Some(exact) = exact else {
                assert_eq!(told, None);
                return;
            };
            let told = Duration::from_secs(told.expect("a denial that frees says when"));
            let jitter = (exact / 10).min(Duration::from_secs(5));
            assert!(told >= exact, "{told:?} is before {exact:?}");
            assert!(told < exact + jitter + Duration::from_secs(1), "{told:?} is long after {exact:?}");
            assert_eq!(json(request, decision)["retry_after"], told.as_secs());
        });
    }
}

#[test]
fn waits_of_those_who_were_denied_together_spread_over_the_jitter() {
    let hourly = per_hour(1).fixed_window();
    let (limiter, _) = limiter(Domain::new("d").rule(Rule::by("k").limit(hourly)));
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..200 {
        let value = format!("user-{index}");
        let request = Request::new("d", [("k", value.as_str())]);
        assert!(limiter.check_now(&request).allowed());
        let denied = limiter.check_now(&request);
        let found = headers(Headers::default(), &request, &denied, START);
        seen.insert(header(&found, "retry-after").unwrap().parse::<u64>().unwrap());
    }
    let (first, last) = (*seen.first().unwrap(), *seen.last().unwrap());
    assert_eq!((seen.len(), last - first), (6, 5), "{seen:?}");
}

#[test]
fn a_request_that_never_passes_has_no_retry_after() {
    let limit = per_minute(5).fixed_window();
    let (limiter, _) = limiter(Domain::new("d").rule(Rule::by("k").limit(limit)));
    let request = Request::new("d", [("k", "v")]).cost(6);
    let denied = limiter.check_now(&request);
    assert!(!denied.allowed());
    assert_eq!(header(&headers(Headers::default(), &request, &denied, START), "retry-after"), None);
    let body = json(&request, &denied);
    assert!(body["retry_after"].is_null());
    assert!(body["limits"][0]["retry_after_ms"].is_null());
    assert_eq!(body["status"], 429);
}

#[test]
fn who_finds_no_free_slot_is_told_to_ask_again_in_a_second_or_two() {
    let (limiter, _) = limiter(Domain::new("d").rule(Rule::by("k").concurrency(1, Duration::from_mins(10))));
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..50 {
        let value = format!("user-{index}");
        let request = Request::new("d", [("k", value.as_str())]);
        let _held = limiter.acquire_now(&request).permit().expect("the slot is free");
        let Acquired::Denied(denied) = limiter.acquire_now(&request) else { panic!("the slot is taken") };
        assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
        let found = headers(Headers::default(), &request, &denied, START);
        seen.insert(header(&found, "retry-after").unwrap().to_owned());
        assert_eq!(json(&request, &denied)["limits"][0]["retry_after_ms"], 1_000);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["1", "2"]);
}

#[test]
fn a_slot_that_times_out_sooner_is_told_as_it_is_and_one_that_there_is_not_never() {
    let rule = |max, ms| Domain::new("d").rule(Rule::by("k").concurrency(max, Duration::from_millis(ms)));
    let (soon, _) = limiter(rule(1, 300));
    let request = Request::new("d", [("k", "ann")]);
    let _held = soon.acquire_now(&request).permit().expect("the slot is free");
    let Acquired::Denied(denied) = soon.acquire_now(&request) else { panic!("the slot is taken") };
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(300)));
    let (never, _) = limiter(rule(0, 300));
    let Acquired::Denied(denied) = never.acquire_now(&request) else { panic!("there is no slot") };
    assert_eq!(denied.retry_after(), Some(Duration::MAX));
}
