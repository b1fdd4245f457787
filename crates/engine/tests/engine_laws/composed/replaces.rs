//! A limit may stand in for others of the same request, by name.

use tidegate::{Limiter, Request, VirtualClock};

use crate::support::{left, limiter, limits_of};

fn rules() -> (Limiter, VirtualClock) {
    limiter(
        "
domain: d
descriptors:
  - {key: general, rate_limit: {name: general, unit: minute, requests_per_unit: 2}}
  - {key: special, rate_limit: {name: special, unit: minute, requests_per_unit: 5, replaces: [{name: general}]}}
  - {key: best, rate_limit: {name: best, unit: minute, requests_per_unit: 9, replaces: [{name: special}, {name: none}]}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: general}, {name: shared}]}}
  - {key: one, rate_limit: {name: shared, unit: minute, requests_per_unit: 9}}
  - {key: two, rate_limit: {name: shared, unit: hour, requests_per_unit: 9}}
  - {key: unnamed, rate_limit: {unit: minute, requests_per_unit: 9}}
",
    )
}

fn request<'a>(keys: &[&'a str]) -> Request<'a> {
    let first = Request::new("d", [(keys[0], "")]);
    keys[1..].iter().fold(first, |request, key| request.and([(*key, "")]))
}

#[test]
fn a_limit_stands_in_for_those_it_names() {
    let (limiter, _) = rules();
    let table: [(&[&str], &[&str]); 9] = [
        (&["general"], &["general (general)"]),
        (&["general", "special"], &["special (special)"]),
        // In any order.
        (&["special", "general"], &["special (special)"]),
        (&["special", "special", "general"], &["special (special)", "special (special)"]),
        // One that is replaced itself replaces all the same.
        (&["general", "special", "best"], &["best (best)"]),
        // Not at second hand.
        (&["general", "best"], &["general (general)", "best (best)"]),
        // All of one name.
        (&["one", "two"], &["shared (shared)", "shared (shared)"]),
        (&["one", "two", "free"], &[]),
        // A window's name is not a name.
        (&["unnamed", "best"], &["unnamed (minute)", "best (best)"]),
    ];
    for (keys, expected) in table {
        assert_eq!(limits_of(&limiter, &request(keys)), expected, "{keys:?}");
    }
}

#[test]
fn an_unlimited_rule_stands_in_too() {
    let (limiter, _) = rules();
    assert_eq!(limits_of(&limiter, &request(&["general", "free"])), [""; 0]);
    assert_eq!(limits_of(&limiter, &request(&["free", "general"])), [""; 0]);
    assert_eq!(limits_of(&limiter, &request(&["free", "special"])), ["special (special)"]);
    for _ in 0..9 {
        assert!(limiter.check_now(&request(&["general", "free"])).allowed());
    }
    assert_eq!(limiter.stats().keys, 0);
}

#[test]
fn a_replaced_limit_is_not_charged_nor_given_back() {
    let (limiter, _) = rules();
    let both = request(&["general", "special"]);
    for _ in 0..5 {
        assert!(limiter.check_now(&both).allowed());
    }
    assert!(!limiter.check_now(&both).allowed());
    assert_eq!(left(&limiter, &request(&["general"])), [2]);
    assert!(limiter.check_now(&request(&["general"])).allowed());
    limiter.refund_now(&both);
    assert_eq!(left(&limiter, &request(&["general"])), [1]);
    assert_eq!(left(&limiter, &request(&["special"])), [1]);
}

#[test]
fn only_within_the_request() {
    let (limiter, _) = rules();
    assert!(limiter.check_now(&request(&["special"])).allowed());
    assert_eq!(limits_of(&limiter, &request(&["general"])), ["general (general)"]);
    // The descriptor must match the rule that replaces, to its end.
    let longer = request(&["general"]).and([("free", ""), ("more", "")]);
    assert_eq!(limits_of(&limiter, &longer), ["general (general)"]);
}

#[test]
fn in_a_hierarchical_domain_a_rule_may_stand_in_for_one_above_it() {
    let (limiter, _) = limiter(
        "
domain: d
hierarchical: true
descriptors:
  - key: user
    rate_limit: {name: everywhere, unit: minute, requests_per_unit: 2}
    descriptors:
      - {key: path, value: /health, rate_limit: {unlimited: true, replaces: [{name: everywhere}]}}
      - {key: path, value: /bulk, rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: everywhere}]}}
      - {key: path, rate_limit: {unit: hour, requests_per_unit: 9}}
",
    );
    let path = |path| Request::new("d", [("user", "ann"), ("path", path)]);
    assert_eq!(limits_of(&limiter, &path("/")), ["everywhere (everywhere)", "user/path (hour)"]);
    assert_eq!(limits_of(&limiter, &path("/bulk")), ["user/path=/bulk (minute)"]);
    assert_eq!(limits_of(&limiter, &path("/health")), [""; 0]);
}

#[test]
fn a_limit_that_a_tier_does_not_have_stands_in_all_the_same() {
    let (limiter, _) = limiter(
        "
domain: d
tenant: key
tenants: {acme: gold}
descriptors:
  - {key: ip, rate_limit: {name: by_ip, unit: minute, requests_per_unit: 2}}
  - key: key
    limits: [{name: by_key, requests: 9, per: minute, replaces: [{name: by_ip}]}]
    tiers: {gold: {by_key: unlimited}}
",
    );
    let request = |key| Request::new("d", [("ip", "::1")]).and([("key", key)]);
    assert_eq!(limits_of(&limiter, &request("other")), ["key (by_key)"]);
    assert_eq!(limits_of(&limiter, &request("acme")), [""; 0]);
}

#[test]
fn within_one_rule_too() {
    let (limiter, _) = limiter(
        "
domain: d
tenant: k
tenants: {acme: gold}
descriptors:
  - key: k
    limits:
      - {name: new, requests: 9, per: minute, replaces: [{name: old}]}
      - {name: old, requests: 2, per: minute}
    tiers: {gold: {new: unlimited}}
",
    );
    assert_eq!(limits_of(&limiter, &Request::new("d", [("k", "v")])), ["k (new)"]);
    assert_eq!(limits_of(&limiter, &Request::new("d", [("k", "acme")])), [""; 0]);
}

#[test]
fn concurrency_is_not_replaced() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: a, concurrency: {max: 1, timeout: 60s}}
  - {key: b, rate_limit: {unlimited: true, replaces: [{name: concurrency}, {name: a}]}}
",
    );
    let both = request(&["a", "b"]);
    let held = limiter.acquire_now(&both).permit().expect("the first is free");
    assert!(limiter.acquire_now(&both).permit().is_none());
    drop(held);
}
