//! What applies to a tenant is listed with where it comes from, and explained.

use tidegate::{LimitOrigin, Limiter, Override, Tenant};

use super::{at, endpoint, key, put, requests, rules, steady};

fn listed(limiter: &Limiter, tenant: &str) -> Vec<String> {
    let limits = limiter.tenant_limits(tenant).into_iter();
    let text = |limit: tidegate::TenantLimit| {
        let numbers = limit.limit.map_or("unlimited".to_owned(), |limit| limit.requests().to_string());
        format!(
            "{} {}[{}] {}: {numbers} by {}",
            limit.domain,
            limit.rule,
            limit.descriptor,
            limit.name,
            limit.from.name()
        )
    };
    limits.map(text).collect()
}

#[test]
fn every_limit_that_follows_from_the_tenant_and_fixed_values_is_listed() {
    let (limiter, _) = rules();
    assert_eq!(
        listed(&limiter, "acme"),
        [
            "d api_key[] steady: 20 by tier",
            "d api_key[] daily: unlimited by tier",
            "d api_key/endpoint=/orders[endpoint:/orders] minute: 4 by rule",
        ]
    );
    let acme = Tenant::new("acme")
        .with(Override::unlimited().limit("steady"))
        .with(Override::of(requests(5)).limit("daily"))
        .with(endpoint(Some("/orders"), 6));
    put(&limiter, acme);
    assert_eq!(
        listed(&limiter, "acme"),
        [
            "d api_key[] steady: unlimited by override",
            "d api_key[] daily: 5 by override",
            "d api_key/endpoint=/orders[endpoint:/orders] minute: 6 by override",
        ]
    );
    let limits = limiter.tenant_limits("bob");
    assert!(limits.iter().all(|limit| limit.from == LimitOrigin::Rule && limit.limit.is_some()));
}

#[test]
fn an_explanation_says_where_numbers_come_from() {
    let (limiter, _) = rules();
    put(&limiter, Tenant::new("bob").tier("gold").with(endpoint(Some("/x"), 6)));
    put(&limiter, Tenant::new("eve").tier("unheard of").with(steady(3)));
    let from = |request| {
        let story = limiter.explain(&request);
        let descriptor = &story.descriptors[0];
        let from: Vec<String> = descriptor.limits.iter().map(|limit| limit.from.clone()).collect();
        (descriptor.tier.clone().unwrap_or_default(), from.join(", "))
    };
    let told = |tier: &str, from: &str| (tier.to_owned(), from.to_owned());
    assert_eq!(from(key("bob")), told("gold", "tier gold, rule"));
    assert_eq!(from(at("bob", "/x")), told("gold", "override"));
    assert_eq!(from(key("eve")), told("unheard of", "override, rule"));
    assert_eq!(from(key("acme")), told("pro", "tier pro"));
    let text = limiter.explain(&key("eve")).to_string();
    assert!(
        text.contains("token_bucket, 3 per minute, burst 3 (override); allows cost 1, 3 left before"),
        "{text}"
    );
}
