//! Rules that load and yet are probably not what somebody meant.
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
//! Each kind of finding has a file, and all are told only what is sure or as good as sure: a lint
//! that cries wolf is switched off.

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

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub kind: FindingKind,
    /// The file, or `code`.
    pub file: String,
    /// Where the rule begins; absent where it was built in code.
    pub place: Option<Place>,
    /// The domain.
    pub domain: String,
    /// The rule's name or path; empty for the domain as a whole.
    pub rule: String,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Probably a mistake.
    Warning,
    /// Certainly one.
    Error,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A rule that no request ever reaches.
    UnreachableRule,
    /// A key whose value clients can write themselves.
    SpoofableKey,
    /// A counter for each of endlessly many values.
    UnboundedKey,
    /// A metric label for each of endlessly many values.
    UnboundedMetric,
    /// A limit that never denies anybody.
    NeverDenies,
    /// A rule that does nothing.
    EmptyRule,
    /// A limit on holders, which checks do not look at.
    ConcurrencyOnly,
    /// Two rules that go by one name.
    NameTwice,
    /// `replaces` of a limit that there is not.
    ReplacesNothing,
    /// A limit of a few requests that is estimated, where counting exactly costs little.
    SmallEstimate,
}

/// Looks at domains that loaded under these defaults. The findings are in the order of the domains and
/// of their rules.
pub fn lint(domains: &[Domain], defaults: &Defaults) -> Vec<Finding> {
    domains.iter().flat_map(|domain| Linter::new(domain, *defaults).findings()).collect()
}

/// `api.yaml:5:5: warning: rule user/path: … [unbounded_key]`
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

/// As JSON has it: `unreachable_rule`.
impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A rule and the way to it.
struct Visit<'a> {
    /// From the first level to the rule itself.
    way: Vec<&'a Rule>,
    /// Its name, or its path.
    id: String,
}

impl<'a> Visit<'a> {
    fn rule(&self) -> &'a Rule {
        self.way[self.way.len() - 1]
    }

    fn above(&self) -> &[&'a Rule] {
        &self.way[..self.way.len() - 1]
    }
}

/// One domain being looked at.
struct Linter<'a> {
    domain: &'a Domain,
    defaults: Defaults,
    rules: Vec<Visit<'a>>,
    /// Each with the index of its rule; 0 for the domain, 1 for the first rule.
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
        // What belongs to one rule stays in the order of the kinds above.
        self.found.sort_by_key(|(index, _)| *index);
        self.found.into_iter().map(|(_, finding)| finding).collect()
    }

    /// Adds a finding about the rule of that index.
    fn add(&mut self, index: usize, severity: Severity, kind: FindingKind, message: String) {
        let visit = &self.rules[index];
        let (file, domain) = (self.domain.source.clone(), self.domain.name.clone());
        let (place, rule) = (visit.rule().written.0, visit.id.clone());
        self.found.push((index + 1, Finding { severity, kind, file, place, domain, rule, message }));
    }

    /// Adds a finding about the domain.
    fn add_to_domain(&mut self, severity: Severity, kind: FindingKind, message: String) {
        let (file, domain) = (self.domain.source.clone(), self.domain.name.clone());
        let (place, rule) = (None, String::new());
        self.found.push((0, Finding { severity, kind, file, place, domain, rule, message }));
    }
}

fn visit<'a>(rules: &'a [Rule], above: &[&'a Rule], path: &Path, visits: &mut Vec<Visit<'a>>) {
    for rule in rules {
        let path = path.with(rule);
        let way: Vec<&Rule> = above.iter().copied().chain([rule]).collect();
        visits.push(Visit { way: way.clone(), id: rule.name.clone().unwrap_or_else(|| path.id.clone()) });
        visit(&rule.rules, &way, &path, visits);
    }
}

impl Rule {
    /// The value it matches; `None` where it matches any.
    fn given_value(&self) -> Option<&str> {
        self.value.as_deref().filter(|value| !value.is_empty())
    }

    /// Whether each value that it matches has a counter of its own.
    fn varies(&self) -> bool {
        self.given_value().is_none_or(|value| Pattern::is_pattern(value) && !self.share_threshold)
    }

    /// Whether requests are counted by it.
    fn counts(&self) -> bool {
        !self.limits.is_empty() && !self.unlimited
    }
}
