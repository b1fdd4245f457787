//! Tenants with limits of their own are decided as if the rules had been written out for each by hand.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::{
    Domain, LimitChange, Limiter, Override, Request, Rule, Tenant, TenantChange, VirtualClock, per_minute,
};

const TENANTS: [&str; 4] = ["ann", "bob", "eve", "dan"];
const PATHS: [&str; 3] = ["/orders", "/files/a", "/other"];
const TIERS: [Option<&str>; 3] = [None, Some("pro"), Some("gold")];

/// What a tenant has: a tier, and overrides of its own rule, of every path, and of each path.
#[derive(Clone, Debug)]
struct Wish {
    tier: usize,
    own: Option<u64>,
    every: Option<u64>,
    paths: [Option<u64>; 3],
}

/// One thing that happens: a tenant asks, alone or for a path.
type Ask = (usize, Option<usize>, u64);

fn wish() -> impl Strategy<Value = Wish> {
    let number = || proptest::option::of(0_u64..9);
    (0..TIERS.len(), number(), number(), [number(), number(), number()])
        .prop_map(|(tier, own, every, paths)| Wish { tier, own, every, paths })
}

fn change(requests: u64) -> LimitChange {
    LimitChange { requests: Some(requests), ..LimitChange::default() }
}

fn tenant(name: &str, wish: &Wish) -> Tenant {
    let of_path = |value: Option<&str>, count: u64| Override::of(change(count)).entry("path", value);
    let own = wish.own.map(|count| Override::of(change(count)));
    let every = wish.every.map(|count| of_path(None, count));
    let paths = PATHS.iter().zip(wish.paths).filter_map(|(path, count)| Some(of_path(Some(path), count?)));
    Tenant {
        name: name.to_owned(),
        tier: TIERS[wish.tier].map(str::to_owned),
        overrides: own.into_iter().chain(every).chain(paths).collect(),
    }
}

fn rules(hierarchical: bool) -> Domain {
    let instead = |count| tidegate::TierLimit::Change(change(count));
    let path = |rule: Rule, count| rule.limit(per_minute(count).fixed_window());
    let tenant = Rule::by("tenant")
        .limit(per_minute(5).fixed_window())
        .tier("pro", "minute", instead(7))
        .tier("gold", "minute", tidegate::TierLimit::Unlimited)
        .rule(path(Rule::by("path").value("/orders"), 2))
        .rule(path(Rule::by("path").value("/files/*"), 3))
        .rule(path(Rule::by("path"), 4));
    let domain = Domain::new("d").tenant_key("tenant").rule(tenant);
    if hierarchical { domain.hierarchical() } else { domain }
}

/// The same with a rule for each tenant and path.
fn by_hand(hierarchical: bool, wishes: &[Wish]) -> Domain {
    let mut domain = Domain::new("d");
    for (name, wish) in TENANTS.iter().zip(wishes) {
        let of_tier = [Some(5), Some(7), None][wish.tier];
        let limit = |rule: Rule, count: Option<u64>| match count {
            Some(count) => rule.limit(per_minute(count).fixed_window()),
            None => rule,
        };
        let mut rule = limit(Rule::by("tenant").value(name), wish.own.or(of_tier));
        for (number, path) in PATHS.iter().enumerate() {
            let count = wish.paths[number].or(wish.every).unwrap_or([2, 3, 4][number]);
            rule = rule.rule(limit(Rule::by("path").value(path), Some(count)));
        }
        domain = domain.rule(rule);
    }
    if hierarchical { domain.hierarchical() } else { domain }
}

fn build(domain: Domain) -> Limiter {
    Limiter::builder().domain(domain).clock(VirtualClock::new()).build().expect("good rules")
}

/// What both answer: whether it passes, and what each limit has left.
fn answer(limiter: &Limiter, (tenant, path, cost): Ask) -> (bool, Vec<(u64, u64)>) {
    let mut entries = vec![("tenant", TENANTS[tenant])];
    entries.extend(path.map(|path| ("path", PATHS[path])));
    let decision = limiter.check_now(&Request::new("d", entries).cost(cost));
    let limits = decision.limits().map(|limit| (limit.limit.requests(), limit.remaining)).collect();
    (decision.allowed(), limits)
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(64))]

    #[test]
    fn decisions_are_those_of_rules_written_out_by_hand(
        hierarchical: bool,
        wishes in vec(wish(), TENANTS.len()),
        asked in vec((0..TENANTS.len(), proptest::option::of(0..PATHS.len()), 0_u64..3), 1..60),
    ) {
        let (one, other) = (build(rules(hierarchical)), build(by_hand(hierarchical, &wishes)));
        let tenants = || TENANTS.iter().zip(&wishes).map(|(name, wish)| TenantChange::Put(tenant(name, wish)));
        // Whatever was there before is gone.
        one.change_tenants(TENANTS.iter().zip(wishes.iter().rev()).map(|(name, wish)| TenantChange::Put(tenant(name, wish))));
        one.change_tenants(tenants());
        let alike = build(rules(hierarchical));
        alike.change_tenants(tenants());
        for ask in asked {
            let expected = answer(&other, ask);
            prop_assert_eq!(&answer(&one, ask), &expected);
            prop_assert_eq!(&answer(&alike, ask), &expected);
        }
    }
}
