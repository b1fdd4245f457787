//! Tenants on tiers have other numbers.

use tidegate::{
    AlgorithmName, Domain, LimitChange, Limiter, Request, Rule, TierLimit, VirtualClock, Window, per_hour,
    per_minute,
};

use crate::support::{left, limiter, limiter_of, limits_of, passes};

fn rules() -> (Limiter, VirtualClock) {
    limiter(
        "
domain: d
tenant: api_key
tenants: {acme: pro, big: enterprise, tiny: free}
descriptors:
  - key: api_key
    limits:
      - {name: steady, requests: 3, per: minute, algorithm: token_bucket}
      - {name: daily, requests: 100, per: day}
    tiers:
      pro: {steady: {requests: 10, burst: 5}, daily: {requests: 200}}
      enterprise: {steady: {requests: 50}, daily: unlimited}
      free:
    descriptors:
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 4}}
  - key: ip
    limits: [{requests: 7, per: minute}]
    tiers: {enterprise: {minute: unlimited}}
",
    )
}

fn key(key: &str) -> Request<'_> {
    Request::new("d", [("api_key", key)])
}

#[test]
fn a_tenant_has_the_numbers_of_its_tier() {
    let (limiter, _) = rules();
    let table: [(&str, &[u64]); 5] = [
        ("acme", &[5, 200]),
        // The burst of a bucket without one is its requests, in every tier.
        ("big", &[50]),
        ("tiny", &[3, 100]),
        ("nobody", &[3, 100]),
        ("", &[3, 100]),
    ];
    for (tenant, expected) in table {
        assert_eq!(left(&limiter, &key(tenant)), expected, "{tenant}");
        let burst = expected[0] as usize;
        assert_eq!(passes(&limiter, &key(tenant), 99), burst, "{tenant}");
    }
}

#[test]
fn a_limit_that_a_tier_does_not_have_is_neither_held_nor_counted() {
    let (limiter, _) = rules();
    assert_eq!(limits_of(&limiter, &key("big")), ["api_key (steady)"]);
    assert_eq!(
        limits_of(&limiter, &Request::new("d", [("ip", "::1")]).and([("api_key", "big")])),
        ["api_key (steady)"]
    );
}

#[test]
fn a_rule_without_tiers_is_the_same_for_all() {
    let (limiter, _) = rules();
    for tenant in ["acme", "big", "nobody"] {
        let request = Request::new("d", [("api_key", tenant), ("path", "/")]).cost(0);
        assert_eq!(left(&limiter, &request), [4], "{tenant}");
    }
}

#[test]
fn the_tenant_may_be_named_in_another_descriptor() {
    let (limiter, _) = rules();
    let ip = || Request::new("d", [("ip", "::1")]);
    assert_eq!(limits_of(&limiter, &ip()), ["ip (minute)"]);
    assert_eq!(limits_of(&limiter, &ip().and([("api_key", "acme")])).len(), 3);
    // Whether before or after, and whether that one matches a rule or not.
    assert_eq!(limits_of(&limiter, &ip().and([("x", ""), ("api_key", "big")])), [""; 0]);
    assert_eq!(
        limits_of(&limiter, &Request::new("d", [("x", ""), ("api_key", "big")]).and([("ip", "::1")])),
        [""; 0]
    );
}

#[test]
fn a_descriptor_that_names_a_tenant_itself_goes_by_that_one() {
    let (limiter, _) = rules();
    let two = key("acme").and([("api_key", "big")]).cost(0);
    assert_eq!(left(&limiter, &two), [5, 200, 50]);
    let swapped = key("big").and([("api_key", "acme")]).cost(0);
    assert_eq!(left(&limiter, &swapped), [50, 5, 200]);
}

#[test]
fn tenants_named_alike_are_told_apart() {
    let (limiter, _) = rules();
    for tenant in ["ACME", "acme ", "acm", "acmee", "\u{430}cme"] {
        assert_eq!(left(&limiter, &key(tenant)), [3, 100], "{tenant}");
    }
}

#[test]
fn a_tier_may_have_another_window_and_algorithm() {
    let change = LimitChange {
        requests: Some(8),
        window: Some(Window::seconds(10)),
        algorithm: Some(AlgorithmName::SlidingLog),
        ..LimitChange::default()
    };
    let rule = Rule::by("k")
        .limit(per_minute(2).burst(1).named("main"))
        .limit(per_hour(9))
        .tier("gold", "main", TierLimit::Change(change))
        .tier("gold", "hour", TierLimit::Unlimited);
    let (limiter, _) = limiter_of(Domain::new("d").tenant_key("k").tenant("acme", "gold").rule(rule));
    let texts = |tenant| {
        let decision = limiter.peek_now(&Request::new("d", [("k", tenant)]));
        decision.limits().map(|limit| format!("{}: {}", limit.name, limit.limit)).collect::<Vec<_>>()
    };
    assert_eq!(texts("acme"), ["main: sliding_log, 8 per 10s"]);
    assert_eq!(
        texts("other"),
        ["main: token_bucket, 2 per minute, burst 1", "hour: sliding_window, 9 per hour"]
    );
}

#[test]
fn tiers_and_hierarchy_go_together() {
    let (limiter, _) = limiter(
        "
domain: d
tenant: api_key
hierarchical: true
tenants: {acme: pro}
descriptors:
  - key: region
    limits: [{requests: 100, per: minute}]
    tiers: {pro: {minute: {requests: 1000}}}
    descriptors:
      - key: api_key
        limits: [{requests: 10, per: minute}]
        tiers: {pro: {minute: {requests: 20}}}
",
    );
    let request = |key| Request::new("d", [("region", "eu"), ("api_key", key)]).cost(0);
    // The tenant of a request decides on every rule it passes on the way.
    assert_eq!(left(&limiter, &request("acme")), [1000, 20]);
    assert_eq!(left(&limiter, &request("other")), [100, 10]);
}
