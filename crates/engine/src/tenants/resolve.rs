//! Resolves the overrides of a tenant to limits that decisions look up.

use tidegate_core::{Key, KeySeed, Window};

use super::own::{Draft, OverrideLimit};
use super::problem::OverrideProblem;
use super::table::Tenants;
use super::walk::{Found, Target};
use super::{Override, Tenant};
use crate::request::Entry;
use crate::rules::limit_spec::{LimitChange, LimitSpec};
use crate::rules::model::TierLimit;
use crate::rules::tree::{DomainTree, RuleEntry, RuleSet, Step};

/// Returns the fingerprint of the descriptor values at the indexes whose bits are set in `given`.
pub(crate) fn values_of(seed: KeySeed, given: u32, entries: &[Entry<'_>]) -> u64 {
    let given_values = entries.iter().enumerate().filter(|(index, _)| *index < 32 && given >> index & 1 == 1);
    given_values.fold(Key::NONE, |key, (_, (_, value))| key.then(seed.text(value))).mark
}

/// The precedence of an override among others for the same limit: one for a domain wins over one for all, one
/// that names the limit over one that does not, a later one over an earlier one.
type Rank = (bool, bool, usize);

impl RuleSet {
    /// Resolves the tier and the overrides of a tenant with these rules. An override that matches no rule is
    /// skipped, with a warning in the log.
    pub(crate) fn draft(&self, tenant: &Tenant, tenants: &mut Tenants) -> Draft {
        let tier = tenant.tier.as_deref().map(|tier| tenants.number_tier(tier, &self.domains));
        let mut ranked: Vec<(Rank, OverrideLimit)> = Vec::new();
        for (number, written) in tenant.overrides.iter().enumerate() {
            let rank = (written.domain.is_some(), written.limit.is_some(), number);
            match self.resolve(tenant, written) {
                Ok(own) => ranked.extend(own.into_iter().map(|own| (rank, own))),
                Err(OverrideProblem { field, reason }) => {
                    tracing::warn!(tenant = tenant.name, %field, reason, "an override matches no rule");
                }
            }
        }
        ranked.sort_by_key(|(rank, own)| (own.order(), std::cmp::Reverse(*rank)));
        ranked.dedup_by_key(|(_, own)| own.order());
        Draft { tier, own: ranked.into_iter().map(|(_, own)| own).collect() }
    }

    /// Resolves one override. Returns at least one limit, or the reason why there is none.
    pub(super) fn resolve(
        &self,
        tenant: &Tenant,
        written: &Override,
    ) -> Result<Vec<OverrideLimit>, OverrideProblem> {
        let target = Target::Descriptor(&written.descriptor);
        let found = self.walk(&tenant.name, written.domain.as_deref(), target);
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
    ) -> Result<OverrideLimit, OverrideProblem> {
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
        let entry = match &written.replacement {
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
        Ok(OverrideLimit { rule: rule.global_index, given, values, salt, number: number as u16, limit })
    }
}

/// Returns the values that the override requires in addition to those of the rule: a bit per entry, and the
/// fingerprint of the values.
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

/// Returns the index of the rule's limit that the override is for.
fn chosen(rule: &RuleEntry, written: &Override) -> Result<usize, OverrideProblem> {
    let limits = &rule.written.limits;
    if let Some(name) = &written.limit {
        let position = limits.iter().position(|spec| spec.effective_name() == *name);
        return position.ok_or_else(|| OverrideProblem::no_limit(rule, name));
    }
    if limits.len() == 1 {
        return Ok(0);
    }
    if let TierLimit::Change(LimitChange { window: Some(window), .. }) = &written.replacement {
        let mut alike = (0..limits.len()).filter(|number| same_length(&limits[*number].window, window));
        if let (Some(only), None) = (alike.next(), alike.next()) {
            return Ok(only);
        }
    }
    Err(OverrideProblem::several_limits(rule))
}

/// Returns a limit as the tenant's tier has it, or the rule's own if there is no tier or it does not change
/// the limit.
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

/// Returns the change without its window, if that has the unit of the limit's calendar window. Then the limit
/// keeps its calendar.
fn in_calendar_of(spec: &LimitSpec, change: &LimitChange) -> LimitChange {
    let mut change = change.clone();
    let keeps = matches!(spec.window, Window::Calendar(_))
        && change.window.as_ref().is_some_and(|window| same_length(&spec.window, window));
    if keeps {
        change.window = None;
    }
    change
}

/// Returns whether two windows have the same unit or length. Time zones do not matter.
fn same_length(one: &Window, other: &Window) -> bool {
    let length = |window: &Window| match window {
        Window::Calendar(calendar) => Window::named(&calendar.unit().to_string()),
        period @ Window::Period { .. } => Some(period.clone()),
    };
    length(one) == length(other)
}
