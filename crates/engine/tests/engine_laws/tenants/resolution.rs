//! Which numbers apply: the override's, else the tier's, else the rule's.

use tidegate::{AlgorithmName, LimitChange, Override, OverrideField, Request, Tenant, TierLimit, Window};

use super::{at, endpoint, key, put, requests, rules, steady};
use crate::support::{left, limiter, limits_of, passes};

#[test]
fn an_override_goes_before_the_tier_and_the_tier_before_the_rule() {
    let (limiter, _) = rules();
    assert_eq!(left(&limiter, &key("bob")), [10, 100], "the rule");
    put(&limiter, Tenant::new("bob").tier("gold"));
    assert_eq!(left(&limiter, &key("bob")), [200, 100], "the tier");
    put(&limiter, Tenant::new("bob").tier("gold").with(steady(7)));
    assert_eq!(left(&limiter, &key("bob")), [7, 100], "the override");
    assert_eq!(passes(&limiter, &key("bob"), 99), 7);
    assert_eq!(left(&limiter, &key("eve")), [10, 100], "others have what they had");
}

#[test]
fn a_tenants_own_tier_goes_before_the_one_in_the_rules() {
    let (limiter, _) = rules();
    assert_eq!(left(&limiter, &key("acme")), [15], "pro, by the rules");
    put(&limiter, Tenant::new("acme").tier("gold"));
    assert_eq!(left(&limiter, &key("acme")), [200, 100]);
    // A tier that no rule knows changes nothing about any limit.
    put(&limiter, Tenant::new("acme").tier("platinum"));
    assert_eq!(left(&limiter, &key("acme")), [10, 100]);
    // Overrides alone leave the tier as it is.
    put(&limiter, Tenant::new("acme").with(steady(3)));
    assert_eq!(left(&limiter, &key("acme")), [3]);
}

#[test]
fn what_an_override_does_not_say_is_as_the_tier_has_it() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("acme").with(Override::of(requests(77)).limit("steady")));
    let decision = limiter.peek_now(&key("acme").cost(0));
    let texts: Vec<_> = decision.limits().map(|limit| limit.limit.to_string()).collect();
    assert_eq!(texts, ["token_bucket, 77 per minute, burst 15"]);
}

#[test]
fn an_override_brings_back_what_the_tier_made_unlimited_from_the_rules_own_limit() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("acme").with(Override::of(requests(5)).limit("daily")));
    let decision = limiter.peek_now(&key("acme").cost(0));
    let texts: Vec<_> = decision.limits().map(|limit| limit.limit.to_string()).collect();
    assert_eq!(texts, ["token_bucket, 20 per minute, burst 15", "fixed_window, 5 per day in Europe/Berlin"]);
}

#[test]
fn an_override_may_lift_a_limit() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("bob").with(Override::unlimited().limit("steady")));
    assert_eq!(limits_of(&limiter, &key("bob")), ["api_key (daily)"]);
    let both = Tenant::new("bob")
        .with(Override::unlimited().limit("steady"))
        .with(Override::unlimited().limit("daily"));
    put(&limiter, both);
    assert_eq!(limits_of(&limiter, &key("bob")), [""; 0]);
    assert!(limiter.check_now(&key("bob").cost(1_000_000)).allowed());
}

#[test]
fn an_override_without_a_name_means_the_limit_of_its_window_and_keeps_the_calendar() {
    let (limiter, _) = rules();
    let change = |window| LimitChange { window: Window::named(window), ..requests(9) };
    put(&limiter, Tenant::new("bob").with(Override::of(change("day"))));
    let texts = |tenant| {
        let decision = limiter.peek_now(&key(tenant).cost(0));
        decision.limits().map(|limit| format!("{}: {}", limit.name, limit.limit)).collect::<Vec<_>>()
    };
    assert_eq!(
        texts("bob"),
        ["steady: token_bucket, 10 per minute, burst 10", "daily: fixed_window, 9 per day in Europe/Berlin"]
    );
    put(&limiter, Tenant::new("bob").with(Override::of(change("minute"))));
    assert_eq!(texts("bob")[0], "steady: token_bucket, 9 per minute, burst 9");
}

#[test]
fn an_override_may_have_another_window_and_algorithm() {
    let (limiter, _) = rules();
    let change = LimitChange {
        requests: Some(3),
        window: Some(Window::seconds(90)),
        algorithm: Some(AlgorithmName::SlidingLog),
        ..LimitChange::default()
    };
    let other = Override { replacement: TierLimit::Change(change), ..steady(1) };
    put(&limiter, Tenant::new("bob").with(other));
    let decision = limiter.peek_now(&key("bob"));
    let limit = decision.limits().next().expect("a limit");
    assert_eq!((limit.name, limit.limit.to_string().as_str()), ("steady", "sliding_log, 3 per 90s"));
    assert_eq!(passes(&limiter, &key("bob"), 99), 3);
}

#[test]
fn a_value_is_overridden_under_exact_rules_patterns_and_rules_for_any() {
    let (limiter, _) = rules();
    let bob = Tenant::new("bob")
        .with(endpoint(Some("/orders"), 40))
        .with(endpoint(Some("/files/a"), 60))
        .with(endpoint(Some("/other"), 80));
    put(&limiter, bob);
    let table = [("/orders", 40), ("/files/a", 60), ("/files/b", 6), ("/other", 80), ("/another", 8)];
    for (path, expected) in table {
        assert_eq!(left(&limiter, &at("bob", path)), [expected], "{path}");
        assert_eq!(passes(&limiter, &at("bob", path), 99), expected as usize, "{path}");
    }
    assert_eq!(left(&limiter, &at("eve", "/other")), [8]);
}

#[test]
fn an_override_without_a_value_is_for_every_value_and_one_with_goes_before_it() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("bob").with(endpoint(Some("/other"), 80)).with(endpoint(None, 70)));
    let table = [("/orders", 70), ("/files/a", 70), ("/other", 80), ("/another", 70)];
    for (path, expected) in table {
        assert_eq!(left(&limiter, &at("bob", path)), [expected], "{path}");
    }
    assert_eq!(left(&limiter, &key("bob")), [10, 100], "the tenant's own rule is another");
}

#[test]
fn every_value_has_a_counter_of_its_own_under_an_override_for_all() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("bob").with(endpoint(None, 3)));
    assert_eq!(passes(&limiter, &at("bob", "/a"), 99), 3);
    assert_eq!(passes(&limiter, &at("bob", "/b"), 99), 3);
}

#[test]
fn all_rules_apply_together_and_the_most_restrictive_decides() {
    let text = "
domain: d
tenant: api_key
hierarchical: true
descriptors:
  - key: api_key
    limits: [{requests: 100, per: minute}]
    descriptors:
      - {key: endpoint, rate_limit: {unit: minute, requests_per_unit: 100}}
";
    let (limiter, _) = limiter(text);
    put(&limiter, Tenant::new("bob").with(Override::of(requests(5))).with(endpoint(Some("/a"), 3)));
    assert_eq!(left(&limiter, &at("bob", "/a")), [5, 3]);
    assert_eq!(passes(&limiter, &at("bob", "/a"), 99), 3, "the endpoint's");
    assert_eq!(left(&limiter, &at("bob", "/b")), [2, 100], "denied requests took nothing");
    assert_eq!(passes(&limiter, &at("bob", "/b"), 99), 2, "the tenant's");
}

#[test]
fn a_tenant_named_in_another_descriptor_has_its_own_numbers() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("bob").with(Override::of(requests(3)).entry("ip", None)));
    let ip = |address| Request::new("d", [("ip", address)]);
    assert_eq!(left(&limiter, &ip("::1")), [30]);
    assert_eq!(left(&limiter, &ip("::1").and([("x", ""), ("api_key", "bob")])), [3]);
    assert_eq!(left(&limiter, &ip("::1").and([("x", ""), ("api_key", "eve")])), [30]);
}

#[test]
fn domains_are_overridden_together_or_alone() {
    let domain = |name: &str| {
        let text = format!(
            "{{domain: {name}, tenant: k, descriptors: [{{key: k, rate_limit: {{unit: minute, requests_per_unit: 5}}}}]}}"
        );
        crate::support::domain(&text)
    };
    let limiter =
        tidegate::Limiter::builder().domain(domain("a")).domain(domain("b")).build().expect("good rules");
    let left_in = |domain| left(&limiter, &Request::new(domain, [("k", "bob")]));
    put(&limiter, Tenant::new("bob").with(Override::of(requests(9))));
    assert_eq!((left_in("a"), left_in("b")), (vec![9], vec![9]));
    // The one for the domain goes before the one for all, in whatever order.
    let special = Override::of(requests(7)).domain("b");
    put(&limiter, Tenant::new("bob").with(special.clone()).with(Override::of(requests(9))));
    assert_eq!((left_in("a"), left_in("b")), (vec![9], vec![7]));
    put(&limiter, Tenant::new("bob").with(special));
    assert_eq!((left_in("a"), left_in("b")), (vec![5], vec![7]));
}

#[test]
fn names_may_be_long_and_of_any_letters_and_are_told_apart() {
    let (limiter, _) = rules();
    let long = "x".repeat(256);
    let names = [
        "",
        "a/b",
        "a%2Fb",
        "a b",
        "\u{430}cme",
        "caf\u{e9}",
        "cafe\u{301}",
        "'; DROP TABLE",
        &long,
        &long[1..],
    ];
    for (number, name) in names.iter().enumerate() {
        put(&limiter, Tenant::new(name).with(steady(100 + number as u64)));
    }
    for (number, name) in names.iter().enumerate() {
        assert_eq!(left(&limiter, &key(name))[0], 100 + number as u64, "{name}");
    }
    assert_eq!(limiter.tenants(), names.len());
}

#[test]
fn a_rule_for_one_tenant_by_name_is_overridden_for_that_one_alone() {
    let text = "
domain: d
tenant: api_key
descriptors:
  - {key: api_key, value: bob, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: api_key, rate_limit: {unit: minute, requests_per_unit: 1}}
";
    let (limiter, _) = limiter(text);
    put(&limiter, Tenant::new("bob").with(Override::of(requests(6))));
    put(&limiter, Tenant::new("eve").with(Override::of(requests(7))));
    let lefts = ["bob", "eve", "dan"].map(|name| left(&limiter, &key(name)));
    assert_eq!(lefts, [vec![6], vec![7], vec![1]]);
}

#[test]
fn an_override_for_the_tenants_own_key_is_one_for_the_tenant_alone() {
    let (limiter, _) = rules();
    for own in [None, Some("bob")] {
        let tenant = Tenant::new("bob").with(steady(7).entry("api_key", own));
        assert_eq!(limiter.check_override(&tenant, &tenant.overrides[0]), Ok(()));
        put(&limiter, tenant);
        assert_eq!(left(&limiter, &key("bob")), [7, 100], "{own:?}");
        assert_eq!(left(&limiter, &key("eve")), [10, 100]);
        put(&limiter, Tenant::new("bob"));
    }
    // And on the way to another rule.
    let both = Override::of(requests(2)).entry("api_key", Some("bob")).entry("endpoint", Some("/orders"));
    put(&limiter, Tenant::new("bob").with(both));
    assert_eq!(left(&limiter, &at("bob", "/orders")), [2]);
    // That of another tenant means nothing.
    let other = Tenant::new("bob").with(steady(7).entry("api_key", Some("eve")));
    assert_eq!(
        limiter.check_override(&other, &other.overrides[0]).expect_err("none").field,
        OverrideField::Descriptor
    );
}
