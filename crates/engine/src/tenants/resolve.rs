//! From a tenant's overrides as written to limits that decisions look up.

use tidegate_core::{Key, KeySeed, Window};

use super::own::{Draft, OwnLimit};
use super::problem::OverrideProblem;
use super::table::Tenants;
use super::walk::{Found, Wanted};
use super::{Override, Tenant};
use crate::request::Entry;
use crate::rules::limit_spec::{LimitChange, LimitSpec};
use crate::rules::model::TierLimit;
use crate::rules::tree::{DomainTree, RuleEntry, RuleSet, Step};

/// The fingerprint of those values of a descriptor that are given.
pub(crate) fn values_of(seed: KeySeed, given: u32, entries: &[Entry<'_>]) -> u64 {
    let given_values = entries.iter().enumerate().filter(|(index, _)| *index < 32 && given >> index & 1 == 1);
    given_values.fold(Key::NONE, |key, (_, (_, value))| key.then(seed.text(value))).mark
}

/// How an override stands to another of the same limit: one for this domain before one for all, one that
/// names the limit before one that does not, a later one before an earlier.
type Rank = (bool, bool, usize);

impl RuleSet {
    /// What a tenant has under these rules. An override that fits none of them is left out, and told.
    pub(crate) fn draft(&self, tenant: &Tenant, tenants: &mut Tenants) -> Draft {
        let tier = tenant.tier.as_deref().map(|tier| tenants.number_tier(tier, &self.domains));
        let mut ranked: Vec<(Rank, OwnLimit)> = Vec::new();
        for (number, written) in tenant.overrides.iter().enumerate() {
            let rank = (written.domain.is_some(), written.limit.is_some(), number);
            match self.resolve(tenant, written) {
                Ok(own) => ranked.extend(own.into_iter().map(|own| (rank, own))),
                Err(OverrideProblem { field, reason }) => {
                    tracing::warn!(tenant = tenant.name, field, reason, "an override acts on nothing");
                }
            }
        }
        ranked.sort_by_key(|(rank, own)| (own.order(), std::cmp::Reverse(*rank)));
        ranked.dedup_by_key(|(_, own)| own.order());
        Draft { tier, own: ranked.into_iter().map(|(_, own)| own).collect() }
    }

    /// The limits that one override stands for; at least one, or why there is none.
    pub(super) fn resolve(
        &self,
        tenant: &Tenant,
        written: &Override,
    ) -> Result<Vec<OwnLimit>, OverrideProblem> {
        let wanted = Wanted::Descriptor(&written.descriptor);
        let found = self.walk(&tenant.name, written.domain.as_deref(), wanted);
        if found.is_empty() {
            return Err(self.nothing_found(tenant, written));
        }
        let (mut own, mut problem) = (Vec::new(), None);
        for found in &found {
            match self.own_limit(found, tenant, written) {
                Ok(limit) => own.push(limit),
                Err(wrong) => problem = problem.or(Some(wrong)),
            }
        }
        match problem {
            Some(problem) if own.is_empty() => Err(problem),
            _ => Ok(own),
        }
    }

    fn own_limit(
        &self,
        found: &Found<'_>,
        tenant: &Tenant,
        written: &Override,
    ) -> Result<OwnLimit, OverrideProblem> {
        let rule = found.rule;
        if found.is_shared() {
            return Err(OverrideProblem::shared(rule));
        }
        if found.stops.len() > 32 {
            return Err(OverrideProblem::too_deep(rule));
        }
        let number = chosen(rule, written)?;
        let base = tier_spec(self.seed, found.domain, rule, number, tenant);
        let name = rule.written.limits[number].effective_name();
        let entry = match &written.instead {
            TierLimit::Unlimited => None,
            TierLimit::Change(change) => {
                let spec = base.changed(&in_calendar_of(&base, change));
                let entry = spec.entry_named(&name, &self.defaults, self.seed);
                Some(entry.map_err(|error| OverrideProblem::numbers(rule, &name, &error))?)
            }
        };
        let (given, values) = given(self.seed, found);
        let salt = entry.as_ref().map_or(0, |entry| entry.salt);
        let limit = entry.map(|entry| entry.limit);
        Ok(OwnLimit { rule: rule.place, given, values, salt, number: number as u16, limit })
    }
}

/// Which values the override asks for where the rule does not already.
fn given(seed: KeySeed, found: &Found<'_>) -> (u32, u64) {
    let (mut given, mut key) = (0, Key::NONE);
    for (index, stop) in found.stops.iter().enumerate() {
        if let (false, false, Some(value)) = (stop.is_tenant, stop.step == Step::Exact, stop.value) {
            given |= 1 << index;
            key = key.then(seed.text(value));
        }
    }
    (given, key.mark)
}

/// The rule's limit that is meant.
fn chosen(rule: &RuleEntry, written: &Override) -> Result<usize, OverrideProblem> {
    let limits = &rule.written.limits;
    if let Some(name) = &written.limit {
        let position = limits.iter().position(|spec| spec.effective_name() == *name);
        return position.ok_or_else(|| OverrideProblem::no_limit(rule, name));
    }
    if limits.len() == 1 {
        return Ok(0);
    }
    if let TierLimit::Change(LimitChange { window: Some(window), .. }) = &written.instead {
        let mut alike = (0..limits.len()).filter(|number| same_length(&limits[*number].window, window));
        if let (Some(only), None) = (alike.next(), alike.next()) {
            return Ok(only);
        }
    }
    Err(OverrideProblem::several_limits(rule))
}

/// A limit as the tenant's tier has it; the rule's own where the tier does not, or has none.
fn tier_spec(
    seed: KeySeed,
    domain: &DomainTree,
    rule: &RuleEntry,
    number: usize,
    tenant: &Tenant,
) -> LimitSpec {
    let spec = &rule.written.limits[number];
    let tier = tenant
        .tier
        .as_deref()
        .or_else(|| domain.tier_of(&tenant.name, seed).map(|tier| &*domain.tiers[usize::from(tier)]));
    let changes = tier.and_then(|tier| rule.written.tiers.get(tier));
    match changes.and_then(|changes| changes.get(&spec.effective_name())) {
        Some(TierLimit::Change(change)) => spec.changed(change),
        Some(TierLimit::Unlimited) | None => spec.clone(),
    }
}

/// A change to the same unit as the limit's calendar keeps the calendar.
fn in_calendar_of(spec: &LimitSpec, change: &LimitChange) -> LimitChange {
    let mut change = change.clone();
    let keeps = matches!(spec.window, Window::Calendar(_))
        && change.window.as_ref().is_some_and(|window| same_length(&spec.window, window));
    if keeps {
        change.window = None;
    }
    change
}

/// Whether two windows have the same unit or length, in whatever calendar.
fn same_length(one: &Window, other: &Window) -> bool {
    let length = |window: &Window| match window {
        Window::Calendar(calendar) => Window::named(&calendar.unit().to_string()),
        period @ Window::Period { .. } => Some(period.clone()),
    };
    length(one) == length(other)
}
