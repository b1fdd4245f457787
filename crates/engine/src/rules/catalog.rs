//! Rules that come from the catalog, beside those of files and code.

use std::collections::BTreeMap;

use super::file;
use super::lint::{Finding, lint};
use super::model::{Domain, Rule};
use super::path::Path;
use super::problem::{Problem, Problems};
use super::source::Owner;
use super::tree::RuleSet;
use crate::limiter::{Inner, Limiter};

/// A domain's rules in the catalog, as a rule file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogRules {
    /// The domain.
    pub domain: String,
    /// The text, which names the same domain.
    pub text: String,
}

/// What rules would change if they were put in force. Rules go by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesChange {
    /// The domain they are of.
    pub domain: String,
    /// Rules that are not in force yet.
    pub added: Vec<String>,
    /// Rules that would be gone.
    pub removed: Vec<String>,
    /// Rules that would say something else.
    pub changed: Vec<String>,
    /// Whether the domain itself would: its tenant key, tiers of tenants, hierarchy or inline limits.
    pub domain_changed: bool,
    /// What is probably not meant so.
    pub findings: Vec<Finding>,
}

impl Limiter {
    /// Puts these domains in force instead of those that came from the catalog before. All of them load,
    /// or nothing changes.
    ///
    /// # Errors
    /// Every mistake in the texts, and every domain that a file or code defines as well.
    pub fn set_catalog_rules(&self, rules: Vec<CatalogRules>) -> Result<(), Problems> {
        self.inner.set_catalog_rules(rules)
    }

    /// Whether a text would do as rules, those of `domain` if it is given, and what it would change.
    /// Nothing is put in force.
    ///
    /// # Errors
    /// Every mistake in the text.
    pub fn check_rules(&self, domain: Option<&str>, text: &str) -> Result<RulesChange, Problems> {
        let source = self.inner.source.lock();
        let defaults = source.defaults;
        let new = read(domain, text, &defaults)?;
        RuleSet::compile(std::slice::from_ref(&new), &defaults, self.inner.store.seed(), 0)?;
        let before = source.find(&new.name).map(|(_, domain)| domain);
        let mut change =
            RulesChange { findings: lint(std::slice::from_ref(&new), &defaults), ..compared(before, &new) };
        change.domain = new.name;
        Ok(change)
    }

    /// Who defines a domain; `None` if nobody does.
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
        let compiled = source.take_catalog(domains, self.store.seed(), self.rules.load().generation + 1)?;
        self.put_in_force(compiled);
        Ok(())
    }
}

/// Reads rules of the catalog. Messages name the domain they were meant for.
fn read(
    domain: Option<&str>,
    text: &str,
    defaults: &super::limit_spec::Defaults,
) -> Result<Domain, Problems> {
    let source = domain.map_or_else(|| "rules".to_owned(), |domain| format!("catalog:{domain}"));
    let read = file::load(&source, text, defaults)?;
    if let Some(domain) = domain.filter(|domain| **domain != read.name) {
        let message = format!("must be {domain:?}, whose rules these are to be, got {:?}", read.name);
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
        domain_changed: before.is_none_or(|before| alone(before) != alone(after)),
        ..RulesChange::default()
    }
}

/// A domain without its rules, wherever it was defined.
fn alone(domain: &Domain) -> Domain {
    Domain { rules: Vec::new(), source: String::new(), ..domain.clone() }
}

/// Every rule without those below it, by its id.
fn rules_by_id(domain: &Domain) -> BTreeMap<String, Rule> {
    fn add(rules: &[Rule], above: &Path, all: &mut BTreeMap<String, Rule>) {
        for rule in rules {
            let path = above.with(rule);
            let id = rule.name.clone().unwrap_or_else(|| path.id.clone());
            all.insert(id, Rule { rules: Vec::new(), ..rule.clone() });
            add(&rule.rules, &path, all);
        }
    }
    let mut all = BTreeMap::new();
    add(&domain.rules, &Path::root(&domain.name), &mut all);
    all
}
