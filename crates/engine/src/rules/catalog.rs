//! Rules from the catalog, in addition to those of files and code.

use std::collections::BTreeMap;

use super::file;
use super::lint::{Finding, lint};
use super::model::{Domain, Rule};
use super::path::Path;
use super::problem::{Problem, Problems};
use super::source::Owner;
use super::tree::RuleSet;
use crate::limiter::{Inner, Limiter};

/// The rules of a domain in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogRules {
    /// The domain.
    pub domain: String,
    /// The rules in the format of a rule file. They must name the same domain.
    pub text: String,
}

/// The difference that rules would make if they were put in force. Rules are given by their IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesChange {
    /// The domain of the rules.
    pub domain: String,
    /// The rules that would be added.
    pub added: Vec<String>,
    /// The rules that would be removed.
    pub removed: Vec<String>,
    /// The rules that would be changed.
    pub changed: Vec<String>,
    /// Whether the domain itself would change: its tenant key, the tiers of tenants, the hierarchy or inline
    /// limits.
    pub domain_changed: bool,
    /// What is probably a mistake in the rules.
    pub findings: Vec<Finding>,
}

impl Limiter {
    /// Puts these domains in force, in place of all earlier ones from the catalog. If any of them is invalid,
    /// nothing changes.
    ///
    /// # Errors
    /// Returns every mistake in the texts, and every domain that a file or code defines too.
    pub fn set_catalog_rules(&self, rules: Vec<CatalogRules>) -> Result<(), Problems> {
        self.inner.set_catalog_rules(rules)
    }

    /// Checks rules without putting them in force, and returns the difference that they would make. If
    /// `domain` is given, the rules must be for that domain.
    ///
    /// # Errors
    /// Returns every mistake in the text.
    pub fn check_rules(&self, domain: Option<&str>, text: &str) -> Result<RulesChange, Problems> {
        let source = self.inner.source.lock();
        let defaults = source.defaults;
        let new = read(domain, text, &defaults)?;
        RuleSet::compile(std::slice::from_ref(&new), &defaults, self.inner.backend.memory.seed(), 0)?;
        let before = source.find(&new.name).map(|(_, domain)| domain);
        let mut change =
            RulesChange { findings: lint(std::slice::from_ref(&new), &defaults), ..compared(before, &new) };
        change.domain = new.name;
        Ok(change)
    }

    /// Returns the source that defines a domain, or `None` if there is no such domain.
    pub fn owner_of(&self, domain: &str) -> Option<Owner> {
        self.inner.source.lock().find(domain).map(|(owner, _)| owner)
    }
}

impl Inner {
    fn set_catalog_rules(&self, rules: Vec<CatalogRules>) -> Result<(), Problems> {
        let mut source = self.source.lock();
        let (mut domains, mut problems) = (Vec::new(), Problems::default());
        for CatalogRules { domain, text } in rules {
            match read(Some(&domain), &text, &source.defaults) {
                Ok(domain) => domains.push(domain),
                Err(mut wrong) => problems.0.append(&mut wrong.0),
            }
        }
        if !problems.0.is_empty() {
            return Err(problems);
        }
        let compiled =
            source.take_catalog(domains, self.backend.memory.seed(), self.rules.load().generation + 1)?;
        self.put_in_force(compiled);
        Ok(())
    }
}

/// Parses rules of the catalog. Messages name the domain that they are for.
fn read(
    domain: Option<&str>,
    text: &str,
    defaults: &super::limit_spec::Defaults,
) -> Result<Domain, Problems> {
    let source = domain.map_or_else(|| "rules".to_owned(), |domain| format!("catalog:{domain}"));
    let read = file::load(&source, text, defaults)?;
    if let Some(domain) = domain.filter(|domain| **domain != read.name) {
        let message = format!("must be {domain:?}, the domain that the rules are for, got {:?}", read.name);
        let problem = Problem { file: source, place: None, field: "domain".to_owned(), message };
        return Err(Problems(vec![problem]));
    }
    Ok(read)
}

fn compared(before: Option<&Domain>, after: &Domain) -> RulesChange {
    let nothing = Domain::default();
    let (old, new) = (rules_by_id(before.unwrap_or(&nothing)), rules_by_id(after));
    let missing = |one: &BTreeMap<String, Rule>, other: &BTreeMap<String, Rule>| {
        one.keys().filter(|id| !other.contains_key(*id)).cloned().collect()
    };
    let differs = |(id, rule): &(&String, &Rule)| old.get(*id).is_some_and(|old| old != *rule);
    RulesChange {
        added: missing(&new, &old),
        removed: missing(&old, &new),
        changed: new.iter().filter(differs).map(|(id, _)| id.clone()).collect(),
        domain_changed: before.is_none_or(|before| without_rules(before) != without_rules(after)),
        ..RulesChange::default()
    }
}

/// Returns a domain without its rules and its source, for comparison.
fn without_rules(domain: &Domain) -> Domain {
    Domain { rules: Vec::new(), source: String::new(), ..domain.clone() }
}

/// Returns every rule by its ID, without its child rules.
fn rules_by_id(domain: &Domain) -> BTreeMap<String, Rule> {
    fn add(rules: &[Rule], parent_path: &Path, all: &mut BTreeMap<String, Rule>) {
        for rule in rules {
            let path = parent_path.with(rule);
            let id = rule.name.clone().unwrap_or_else(|| path.id.clone());
            all.insert(id, Rule { rules: Vec::new(), ..rule.clone() });
            add(&rule.rules, &path, all);
        }
    }
    let mut all = BTreeMap::new();
    add(&domain.rules, &Path::root(&domain.name), &mut all);
    all
}
