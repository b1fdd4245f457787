//! However short the way of a decision is, it says the same.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::{
    Defaults, Domain, LimitSpec, Limiter, Override, Request, Rule, Tenant, TenantChange, TierLimit,
    VirtualClock, per_minute,
};

use super::requests;

const TENANTS: [&str; 3] = ["ann", "bob", "eve"];

/// What a tenant has of its own.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Nothing,
    Tier,
    Numbers(u64),
    Unlimited,
    /// Of a rule that is not asked about.
    Elsewhere(u64),
    /// Of that one, and of the one that is.
    Several(u64),
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        Just(Wish::Nothing),
        Just(Wish::Tier),
        (0_u64..7).prop_map(Wish::Numbers),
        Just(Wish::Unlimited),
        (0_u64..7).prop_map(Wish::Elsewhere),
        (0_u64..7).prop_map(Wish::Several),
    ]
}

fn tenant(name: &str, wish: Wish) -> Tenant {
    let own = |count| Override::of(requests(count));
    match wish {
        Wish::Nothing => Tenant::new(name),
        Wish::Tier => Tenant::new(name).tier("pro"),
        Wish::Numbers(count) => Tenant::new(name).tier("pro").with(own(count)),
        Wish::Unlimited => Tenant::new(name).with(Override::unlimited()),
        Wish::Elsewhere(count) => Tenant::new(name).with(own(count).entry("path", None)),
        Wish::Several(count) => Tenant::new(name).with(own(count + 1).entry("path", None)).with(own(count)),
    }
}

fn limit(algorithm: usize) -> LimitSpec {
    let limit = per_minute(4);
    [limit.clone().token_bucket(), limit.clone().fixed_window(), limit.sliding_window()][algorithm].clone()
}

/// What is the same for all tenants.
#[derive(Clone, Copy, Debug)]
struct Shape {
    algorithm: usize,
    tiers: bool,
    shadow: bool,
    defaults: Defaults,
    other_domain: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let parts = (0..3_usize, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    parts.prop_map(|(algorithm, tiers, shadow, count_denied, other_domain)| {
        let defaults = Defaults { count_denied, ..Defaults::default() };
        Shape { algorithm, tiers, shadow, defaults, other_domain }
    })
}

fn build(shape: Shape, wishes: &[Wish]) -> Limiter {
    let Shape { algorithm, tiers, shadow, defaults, other_domain } = shape;
    let mut rule = Rule::by("tenant").limit(limit(algorithm)).rule(Rule::by("path").limit(per_minute(9)));
    if tiers {
        rule = rule.tier("pro", "minute", TierLimit::Change(requests(6)));
    }
    let rule = if shadow { rule.shadow() } else { rule };
    let mut builder =
        Limiter::builder().defaults(defaults).domain(Domain::new("d").tenant_key("tenant").rule(rule));
    if other_domain {
        builder = builder
            .domain(Domain::new("e").tenant_key("tenant").rule(Rule::by("tenant").limit(per_minute(2))));
    }
    let limiter = builder.clock(VirtualClock::new()).build().expect("good rules");
    let puts = TENANTS.iter().zip(wishes).map(|(name, wish)| TenantChange::Put(tenant(name, *wish)));
    limiter.change_tenants(puts);
    limiter
}

/// Everything that a decision says.
fn said(limiter: &Limiter, request: &Request<'_>) -> (bool, Vec<String>) {
    let decision = limiter.check_now(request);
    (decision.allowed(), decision.limits().map(|limit| format!("{limit:?}")).collect())
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn an_entry_alone_is_decided_as_beside_one_that_no_rule_is_about(
        shape in shape(),
        wishes in vec(wish(), TENANTS.len()),
        asked in vec((0..=TENANTS.len(), 0_u64..4), 1..40),
    ) {
        let (alone, beside) = (build(shape, &wishes), build(shape, &wishes));
        for (who, cost) in asked {
            let name = TENANTS.get(who).copied().unwrap_or("stranger");
            let request = Request::new("d", [("tenant", name)]).cost(cost);
            let longer = Request::new("d", [("tenant", name)]).and([("nobody", "asks")]).cost(cost);
            prop_assert_eq!(said(&alone, &request), said(&beside, &longer));
        }
    }
}
