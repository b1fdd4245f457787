//! Reasons why an override can be rejected.

use std::fmt;

use thiserror::Error;
use tidegate_core::LimitField;

use super::walk::{Found, Target, format_descriptor};
use super::{Override, Tenant};
use crate::limiter::Limiter;
use crate::rules::file::words::list;
use crate::rules::limit_spec::{LimitSpec, SpecError};
use crate::rules::tree::{RuleEntry, RuleSet};

/// The reason why an override is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {reason}")]
pub struct OverrideProblem {
    /// The field at fault.
    pub field: OverrideField,
    /// What is wrong with the field, and what is available instead.
    pub reason: String,
}

/// The fields of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideField {
    /// The domain.
    Domain,
    /// The descriptor.
    Descriptor,
    /// The name of the limit that is replaced.
    Limit,
    /// One of the numbers of the limit.
    Number(LimitField),
}

impl fmt::Display for OverrideField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Domain => "domain",
            Self::Descriptor => "descriptor",
            Self::Limit => "limit",
            Self::Number(field) => field.name(),
        })
    }
}

impl Limiter {
    /// Checks that an override of this tenant applies to some limit of the rules in force.
    ///
    /// # Errors
    /// Returns why it does not, and what is available instead.
    pub fn check_override(&self, tenant: &Tenant, written: &Override) -> Result<(), OverrideProblem> {
        self.inner.rules.load().resolve(tenant, written).map(drop)
    }
}

impl OverrideProblem {
    fn new(field: OverrideField, reason: String) -> Self {
        Self { field, reason }
    }

    pub(super) fn shared(rule: &RuleEntry) -> Self {
        let reason = format!(
            "all tenants share the counter of rule {}; put the tenant's entry on the way to it, or \
             override another rule",
            rule.id
        );
        Self::new(OverrideField::Descriptor, reason)
    }

    pub(super) fn too_deep(rule: &RuleEntry) -> Self {
        let reason = format!("rule {} is more than 32 entries deep; override one above it", rule.id);
        Self::new(OverrideField::Descriptor, reason)
    }

    pub(super) fn no_limit(rule: &RuleEntry, name: &str) -> Self {
        let reason =
            format!("rule {} has no limit called {name:?}; its limits: {}", rule.id, limit_names(rule));
        Self::new(OverrideField::Limit, reason)
    }

    pub(super) fn several_limits(rule: &RuleEntry) -> Self {
        let reason = format!("rule {} has several limits; name one of {}", rule.id, limit_names(rule));
        Self::new(OverrideField::Limit, reason)
    }

    pub(super) fn numbers(rule: &RuleEntry, name: &str, error: &SpecError) -> Self {
        Self::new(
            OverrideField::Number(error.field),
            format!("limit {name:?} of rule {}: {}", rule.id, error.reason),
        )
    }
}

fn limit_names(rule: &RuleEntry) -> String {
    let names: Vec<String> = rule.written.limits.iter().map(LimitSpec::effective_name).collect();
    list(names.iter().map(String::as_str))
}

impl RuleSet {
    /// Returns the reason why an override matches no rule.
    pub(super) fn nothing_found(&self, tenant: &Tenant, written: &Override) -> OverrideProblem {
        let with_tenants = self.domains.iter().filter(|domain| domain.tenant_key.is_some());
        let names: Vec<String> = with_tenants.map(|domain| domain.name.to_string()).collect();
        if names.is_empty() {
            let reason = "no domain says which entry names the tenant; add `tenant: KEY` to its rules";
            return OverrideProblem::new(OverrideField::Domain, reason.to_owned());
        }
        if let Some(name) = written.domain.as_ref().filter(|name| !names.contains(name)) {
            let what = match self.domain(name) {
                Some(_) => "does not say which entry names the tenant",
                None => "has no rules",
            };
            let reason = format!(
                "domain {name:?} {what}; domains with tenants: {}",
                list(names.iter().map(String::as_str))
            );
            return OverrideProblem::new(OverrideField::Domain, reason);
        }
        let found = self.walk(&tenant.name, written.domain.as_deref(), Target::Fixed);
        let texts = found.iter().map(Found::text).map(|text| match text.as_str() {
            "" => "the tenant's own, with no descriptor".to_owned(),
            _ => text,
        });
        let mut texts: Vec<String> = texts.collect();
        texts.dedup();
        let remedy = match texts.as_slice() {
            [] => "the rules have none for a tenant alone".to_owned(),
            texts => format!("rules with fixed values: {}", list(texts.iter().map(String::as_str))),
        };
        let what = match written.descriptor.as_slice() {
            [] => "no rule is for the tenant alone".to_owned(),
            entries => format!("no rule with limits is for {}", format_entries(entries)),
        };
        OverrideProblem::new(OverrideField::Descriptor, format!("{what}; {remedy}"))
    }
}

fn format_entries(entries: &[(String, Option<String>)]) -> String {
    format_descriptor(entries.iter().map(|(key, value)| (key.as_str(), value.as_deref())))
}
