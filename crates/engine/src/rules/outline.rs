//! The rules of a domain as a tree, as they were written.

use serde::Serialize;

use super::model::{Domain, Rule};
use super::origins::Origin;
use super::path::Path;
use crate::limiter::Limiter;

/// A rule and the rules below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleOutline {
    /// The name of the rule, or its path.
    pub rule: String,
    /// The key of the entry that it matches.
    pub key: String,
    /// The value or pattern that it matches; `None` for any value.
    pub value: Option<String>,
    /// The rules for the next entry.
    pub rules: Vec<RuleOutline>,
}

impl Limiter {
    /// Returns the origin of a domain and its rules as a tree; `None` if there is no such domain.
    pub fn outline(&self, domain: &str) -> Option<(Origin, Vec<RuleOutline>)> {
        let origins = self.inner.origins.state();
        origins.find(domain).map(|(origin, domain)| (origin, of_domain(domain)))
    }
}

fn of_domain(domain: &Domain) -> Vec<RuleOutline> {
    of_rules(&domain.rules, &Path::root(&domain.name))
}

fn of_rules(rules: &[Rule], parent: &Path) -> Vec<RuleOutline> {
    let outline = |rule: &Rule| {
        let path = parent.with(rule);
        RuleOutline {
            rules: of_rules(&rule.rules, &path),
            rule: rule.name.clone().unwrap_or(path.id),
            key: rule.key.clone(),
            value: rule.value.clone(),
        }
    };
    rules.iter().map(outline).collect()
}
