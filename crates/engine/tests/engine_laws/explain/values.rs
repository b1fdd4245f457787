//! The explanation as a value.

use std::time::Duration;

use serde_json::json;
use tidegate::{Domain, Request, Rule, per_minute};

use crate::support::{by, every_algorithm, left, limited_by, limiter_of};

#[test]
fn explaining_takes_nothing_and_leaves_nothing_behind() {
    for (name, limit) in every_algorithm() {
        let (limiter, _) = limited_by(limit);
        for _ in 0..10 {
            limiter.explain(&by("v").cost(2));
        }
        assert_eq!(limiter.stats().keys, 0, "{name}");
        limiter.check_now(&by("v"));
        let before = left(&limiter, &by("v"));
        for _ in 0..10 {
            limiter.explain(&by("v").cost(2));
        }
        assert_eq!(left(&limiter, &by("v")), before, "{name}");
    }
}

#[test]
fn what_it_says_is_what_then_happens() {
    for (name, limit) in every_algorithm() {
        let rule = Rule::by("k").limit(limit.named("first")).limit(per_minute(9).named("last"));
        let (limiter, clock) = limiter_of(Domain::new("d").rule(rule));
        for round in 0..20 {
            let request = by("v").cost(round % 4);
            let (before, told) = (left(&limiter, &by("v")), limiter.explain(&request));
            let decision = limiter.check_now(&request);
            let limits = &told.descriptors[0].limits;
            assert_eq!(told.allowed, decision.allowed(), "{name}");
            let decided = decision.decided_by().map(|limit| format!("{} ({})", limit.rule, limit.name));
            assert_eq!(told.decided_by, decided, "{name}");
            assert_eq!(
                limits.iter().map(|limit| limit.remaining_before).collect::<Vec<_>>(),
                before,
                "{name}"
            );
            for (told, limit) in limits.iter().zip(decision.limits()) {
                assert_eq!((told.rule.as_str(), told.name.as_str()), (limit.rule, limit.name), "{name}");
                assert_eq!((told.allowed, told.remaining_after), (limit.allowed, limit.remaining), "{name}");
                let retry_after = limit.retry_after.filter(|retry| *retry != Duration::MAX);
                assert_eq!(told.retry_after_us.map(Duration::from_micros), retry_after, "{name}");
                assert_eq!(told.cost, round % 4, "{name}");
            }
            assert_eq!(limits.iter().filter(|limit| limit.decides).count(), 1, "{name}");
            clock.advance_us(777_777);
        }
    }
}

#[test]
fn the_same_descriptor_twice_is_told_as_it_adds_up() {
    let (limiter, _) = limited_by(per_minute(5));
    let told = limiter.explain(&by("v").cost(2).and([("k", "v")]));
    let limits: Vec<_> = told.descriptors.iter().map(|descriptor| &descriptor.limits[0]).collect();
    assert_eq!((limits[0].remaining_before, limits[0].remaining_after), (5, 3));
    assert_eq!((limits[1].remaining_before, limits[1].remaining_after), (5, 1));
}

#[test]
fn an_explanation_serializes() {
    let (limiter, _) = limited_by(per_minute(1).token_bucket());
    limiter.check_now(&by("v"));
    let told = limiter.explain(&Request::new("d", [("k", "v")]).and([("l", "w")]));
    let found = serde_json::to_value(&told).expect("it serializes");
    let expected = json!({
        "domain": "d",
        "domain_found": true,
        "descriptors": [
            {
                "entries": [{"key": "k", "value": "v", "matched": "rule k for any value"}],
                "why": "rule k is the last entry's",
                "tenant": null,
                "tier": null,
                "limits": [{
                    "rule": "k",
                    "name": "minute",
                    "limit": "token_bucket, 1 per minute, burst 1",
                    "from": "rule",
                    "cost": 1,
                    "remaining_before": 0,
                    "remaining_after": 0,
                    "allowed": false,
                    "retry_after_us": 60_000_000,
                    "not_enforced": null,
                    "decides": true,
                }],
                "replaced": [],
            },
            {
                "entries": [{"key": "l", "value": "w", "matched": "nothing: no rule for key \"l\" here"}],
                "why": "not all entries matched a rule, so no limit applies",
                "tenant": null,
                "tier": null,
                "limits": [],
                "replaced": [],
            },
        ],
        "allowed": false,
        "decided_by": "k (minute)",
    });
    assert_eq!(found, expected, "{found:#}");
    let unknown = limiter.explain(&Request::new("other", [("k", "v")]));
    assert!(!unknown.domain_found && unknown.allowed && unknown.decided_by.is_none());
}
