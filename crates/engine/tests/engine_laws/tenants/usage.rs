//! Usage is read without consuming, and given back.

use tidegate::{Domain, Limiter, Override, Rule, Tenant, VirtualClock};

use super::{at, key, put, requests, rules, steady};
use crate::support::{every_algorithm, left, passes};

/// `rule[descriptor] name: used of limit, left`
async fn used(
    limiter: &Limiter,
    tenant: &str,
    descriptor: Option<&[(String, Option<String>)]>,
) -> Vec<String> {
    let usage = sendable(limiter.usage(tenant, descriptor)).await.into_iter();
    let text = |usage: tidegate::Usage| {
        let (used, of) = (usage.used, usage.limit.burst());
        format!("[{}] {}: {used} of {of}, {} left", usage.descriptor, usage.name, usage.remaining)
    };
    usage.map(text).collect()
}

fn endpoint(value: &str) -> Vec<(String, Option<String>)> {
    vec![("endpoint".to_owned(), Some(value.to_owned()))]
}

/// Servers ask from tasks that go from thread to thread.
fn sendable<T: Send>(future: T) -> T {
    future
}

#[tokio::test]
async fn usage_tells_what_is_used_of_the_numbers_that_apply() {
    let (limiter, clock) = rules();
    put(&limiter, Tenant::new("bob").with(steady(8)));
    assert_eq!(passes(&limiter, &key("bob"), 3), 3);
    assert_eq!(passes(&limiter, &at("bob", "/orders"), 2), 2);
    assert_eq!(passes(&limiter, &at("bob", "/x"), 5), 5);
    let expected = [
        "[] steady: 3 of 8, 5 left",
        "[] daily: 3 of 100, 97 left",
        "[endpoint:/orders] minute: 2 of 4, 2 left",
    ];
    assert_eq!(used(&limiter, "bob", None).await, expected);
    assert_eq!(used(&limiter, "bob", None).await, expected, "looking takes nothing");
    assert_eq!(used(&limiter, "bob", Some(&endpoint("/x"))).await, ["[endpoint:/x] minute: 5 of 8, 3 left"]);
    assert_eq!(used(&limiter, "bob", Some(&endpoint("/y"))).await, ["[endpoint:/y] minute: 0 of 8, 8 left"]);
    assert_eq!(used(&limiter, "eve", None).await[0], "[] steady: 0 of 10, 10 left");
    let daily = &limiter.usage("bob", None).await[1];
    let now = tidegate::Clock::now(&clock);
    assert!(daily.window_start <= now && now < daily.window_end);
    assert!(daily.window_end.since(daily.window_start) == 86_400_000_000);
}

#[tokio::test]
async fn a_reset_gives_back_all_of_every_algorithm_and_nothing_of_others() {
    for (name, limit) in every_algorithm() {
        let rule = Rule::by("api_key").limit(limit);
        let clock = VirtualClock::new();
        let domain = Domain::new("d").tenant_key("api_key").rule(rule);
        let limiter = Limiter::builder().domain(domain).clock(clock.clone()).build().expect("good rules");
        let full = left(&limiter, &key("bob"));
        for tenant in ["bob", "eve"] {
            assert!(passes(&limiter, &key(tenant), 3) > 0, "{name}");
            clock.advance_us(6_000_000);
            passes(&limiter, &key(tenant), 3);
        }
        let of_eve = left(&limiter, &key("eve"));
        assert_eq!(limiter.reset_usage("bob", None).await, Ok(1));
        assert_eq!(left(&limiter, &key("bob")), full, "{name}");
        assert_eq!(left(&limiter, &key("eve")), of_eve, "{name}");
    }
}

#[tokio::test]
async fn a_reset_counts_the_limits_and_may_be_of_one_descriptor() {
    let (limiter, _) = rules();
    passes(&limiter, &key("bob"), 3);
    passes(&limiter, &at("bob", "/x"), 3);
    assert_eq!(limiter.reset_usage("bob", None).await, Ok(3));
    assert_eq!((left(&limiter, &key("bob")), left(&limiter, &at("bob", "/x"))), (vec![10, 100], vec![5]));
    assert_eq!(sendable(limiter.reset_usage("bob", Some(&endpoint("/x")))).await, Ok(1));
    assert_eq!(left(&limiter, &at("bob", "/x")), [8]);
    assert_eq!(limiter.reset_usage("bob", Some(&[("nothing".to_owned(), None)])).await, Ok(0));
}

#[tokio::test]
async fn what_a_tenant_owes_under_lowered_numbers_is_given_back_too() {
    let (limiter, _) = rules();
    passes(&limiter, &key("bob"), 9);
    put(&limiter, Tenant::new("bob").with(steady(2)).with(Override::of(requests(3)).limit("daily")));
    assert_eq!(left(&limiter, &key("bob")), [0, 0]);
    assert_eq!(limiter.reset_usage("bob", None).await, Ok(3));
    assert_eq!(left(&limiter, &key("bob")), [2, 3]);
}
