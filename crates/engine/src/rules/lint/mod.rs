//! Finds rules that are valid but probably a mistake.
//!
//! ```
//! use tidegate::rules::file;
//! use tidegate::{Defaults, lint};
//!
//! let rules = r#"
//! domain: api
//! descriptors:
//!   - { key: user, value: "*", rate_limit: { unit: minute, requests_per_unit: 50 } }
//!   - { key: user, value: "vip-*", rate_limit: { unlimited: true } }
//! "#;
//! let defaults = Defaults::default();
//! let domain = file::load("api.yaml", rules, &defaults).unwrap();
//! let findings = lint(&[domain], &defaults);
//! assert!(findings[0].to_string().starts_with("api.yaml:5:5: error: rule user=vip-*: never applies"));
//! ```
//!
//! Each kind of finding has a file. Only findings that are certain or nearly certain are reported, because
//! people turn off a lint with false alarms.

mod cardinality;
mod implied;
mod keys;
mod never_denies;
mod small;
mod small_estimate;
mod spoofable;
mod unreachable;

use std::fmt;

use serde::Serialize;

use super::limit_spec::Defaults;
use super::model::{Domain, Rule};
use super::path::Path;
use super::pattern::Pattern;
use super::problem::Place;

/// A probable mistake in rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind of mistake.
    pub kind: FindingKind,
    /// The name of the file, or `code`.
    pub file: String,
    /// Where the rule begins; `None` for rules built in code and for the domain as a whole.
    pub place: Option<Place>,
    /// The domain.
    pub domain: String,
    /// The name or path of the rule; empty for the domain as a whole.
    pub rule: String,
    /// What is wrong, and a remedy.
    pub message: String,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    Note,
    /// Probably a mistake.
    Warning,
    /// Certainly a mistake.
    Error,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A rule that no request ever reaches.
    UnreachableRule,
    /// A key whose values clients can choose.
    SpoofableKey,
    /// A key with an unbounded number of values, each with a counter of its own.
    UnboundedKey,
    /// A metric label with an unbounded number of values.
    UnboundedMetric,
    /// A limit that never denies anything.
    NeverDenies,
    /// A rule without an effect.
    EmptyRule,
    /// A concurrency limit, which checks ignore.
    ConcurrencyOnly,
    /// Two rules with the same name.
    NameTwice,
    /// A `replaces` that names no limit of the domain.
    ReplacesNothing,
    /// A limit of a few requests that is estimated, although an exact one would be cheap.
    SmallEstimate,
}

/// Checks domains that were loaded with these defaults. The findings are in the order of the domains and
/// their rules.
pub fn lint(domains: &[Domain], defaults: &Defaults) -> Vec<Finding> {
    domains.iter().flat_map(|domain| Linter::new(domain, *defaults).findings()).collect()
}

/// Formats the finding as in `api.yaml:5:5: warning: rule user/path: … [unbounded_key]`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}: ", self.severity)?;
        if self.rule.is_empty() {
            write!(f, "domain {}: {} [{}]", self.domain, self.message, self.kind)
        } else {
            write!(f, "rule {}: {} [{}]", self.rule, self.message, self.kind)
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Formats the kind as in JSON: `unreachable_rule`.
impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A rule and its ancestors.
struct Visit<'a> {
    /// The rules from the top level to this rule, inclusive.
    path: Vec<&'a Rule>,
    /// The name of the rule, or its path as text.
    id: String,
}

impl<'a> Visit<'a> {
    fn rule(&self) -> &'a Rule {
        self.path[self.path.len() - 1]
    }

    fn ancestors(&self) -> &[&'a Rule] {
        &self.path[..self.path.len() - 1]
    }
}

/// The lint of one domain.
struct Linter<'a> {
    domain: &'a Domain,
    defaults: Defaults,
    rules: Vec<Visit<'a>>,
    /// The findings, each with 0 for the domain, 1 for the first rule and so on.
    found: Vec<(usize, Finding)>,
}

impl<'a> Linter<'a> {
    fn new(domain: &'a Domain, defaults: Defaults) -> Self {
        let mut rules = Vec::new();
        visit(&domain.rules, &[], &Path::root(&domain.name), &mut rules);
        Self { domain, defaults, rules, found: Vec::new() }
    }

    fn findings(mut self) -> Vec<Finding> {
        unreachable::find(&mut self);
        spoofable::find(&mut self);
        cardinality::find(&mut self);
        never_denies::find(&mut self);
        implied::find(&mut self);
        small::find(&mut self);
        small_estimate::find(&mut self);
        // The sort is stable: findings of one rule stay in the order of the kinds above.
        self.found.sort_by_key(|(index, _)| *index);
        self.found.into_iter().map(|(_, finding)| finding).collect()
    }

    /// Adds a finding about the rule with this index.
    fn add(&mut self, index: usize, severity: Severity, kind: FindingKind, message: String) {
        let visit = &self.rules[index];
        let (file, domain) = (self.domain.source.clone(), self.domain.name.clone());
        let (place, rule) = (visit.rule().position.0, visit.id.clone());
        self.found.push((index + 1, Finding { severity, kind, file, place, domain, rule, message }));
    }

    /// Adds a finding about the domain.
    fn add_to_domain(&mut self, severity: Severity, kind: FindingKind, message: String) {
        let (file, domain) = (self.domain.source.clone(), self.domain.name.clone());
        let (place, rule) = (None, String::new());
        self.found.push((0, Finding { severity, kind, file, place, domain, rule, message }));
    }
}

fn visit<'a>(rules: &'a [Rule], ancestors: &[&'a Rule], path: &Path, visits: &mut Vec<Visit<'a>>) {
    for rule in rules {
        let path = path.with(rule);
        let rules: Vec<&Rule> = ancestors.iter().copied().chain([rule]).collect();
        visits.push(Visit { path: rules.clone(), id: rule.name.clone().unwrap_or_else(|| path.id.clone()) });
        visit(&rule.rules, &rules, &path, visits);
    }
}

impl Rule {
    /// Returns the value that the rule matches, or `None` if it matches any.
    fn given_value(&self) -> Option<&str> {
        self.value.as_deref().filter(|value| !value.is_empty())
    }

    /// Returns whether each value that the rule matches has counters of its own.
    fn varies(&self) -> bool {
        self.given_value().is_none_or(|value| Pattern::is_pattern(value) && !self.share_threshold)
    }

    /// Returns whether the rule counts requests.
    fn counts(&self) -> bool {
        !self.limits.is_empty() && !self.unlimited
    }
}
