//! Tenants with a tier and their own limits, no two with the same numbers.

use std::sync::Arc;

use tidegate::{
    BuildError, Domain, LimitChange, LimitSpec, Limiter, Override, ReadError, Rule, Tenant, TenantSource,
    TierLimit,
};

use crate::stream::name;

/// The number of tenants.
pub const TENANTS: usize = 100_000;

/// A source of tenants.
struct Population(usize, fn(usize) -> Override);

impl TenantSource for Population {
    fn each(&self, put: &mut dyn FnMut(Tenant)) -> Result<(), ReadError> {
        let Self(count, limit) = self;
        (0..*count).for_each(|number| put(Tenant::new(&name(number)).tier("pro").with(limit(number))));
        Ok(())
    }
}

/// Returns the limit of a tenant. No two tenants have the same, and no benchmark empties it. It refills as slowly as
/// [`crate::subject::generous`], so that counters stay.
fn numbers(number: usize) -> LimitChange {
    let (requests, burst) = (Some(9_000), Some(10_000 + number as u64));
    LimitChange { requests, burst, ..LimitChange::default() }
}

/// Returns a limiter for users that are tenants; `count` of them have a tier and an override of their own rule.
///
/// # Errors
/// Returns an error if the limits are invalid.
pub fn of_users(
    limits: impl IntoIterator<Item = LimitSpec>,
    tiers: bool,
    count: usize,
) -> Result<Limiter, BuildError> {
    let mut rule = limits.into_iter().fold(Rule::by("user"), Rule::limit);
    if tiers {
        rule = rule.tier(
            "pro",
            "hour",
            TierLimit::Change(LimitChange { requests: Some(200), ..LimitChange::default() }),
        );
    }
    let domain = Domain::new("api").tenant_key("user").rule(rule);
    let population = Population(count, |number| Override::of(numbers(number)).limit("day"));
    Limiter::builder().domain(domain).max_keys(4 * TENANTS).tenants(Arc::new(population)).build()
}

/// Returns a limiter like [`of_users`], but with an override for one path, under a rule for any.
///
/// # Errors
/// Returns an error if the limit is invalid.
pub fn of_paths(limit: LimitSpec, count: usize) -> Result<Limiter, BuildError> {
    let domain =
        Domain::new("api").tenant_key("tenant").rule(Rule::by("tenant").rule(Rule::by("user").limit(limit)));
    let population = Population(count, |number| Override::of(numbers(number)).entry("user", Some("ann")));
    Limiter::builder().domain(domain).max_keys(4 * TENANTS).tenants(Arc::new(population)).build()
}
