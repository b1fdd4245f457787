//! Rules as text: parses the texts of an origin, and computes the difference that a text would make.

use std::collections::BTreeMap;

use super::file;
use super::limit_spec::Defaults;
use super::lint::{Finding, lint};
use super::listing::DomainListing;
use super::model::{Domain, Rule};
use super::origins::Origin;
use super::origins::update::RulesText;
use super::path::Path;
use super::problem::{Problem, Problems};
use super::tree::RuleSet;
use crate::limiter::Limiter;

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
    /// Probable mistakes in the rules.
    pub findings: Vec<Finding>,
}

impl Limiter {
    /// Checks rules without putting them in force, and returns the difference that they would make. If
    /// `domain` is given, the rules must be for that domain.
    ///
    /// # Errors
    /// Returns every mistake in the text.
    pub fn check_rules(&self, domain: Option<&str>, text: &str) -> Result<RulesChange, Problems> {
        let origins = self.inner.origins.state();
        let defaults = origins.defaults;
        let new = read_for(domain, text, &defaults)?;
        RuleSet::compile(std::slice::from_ref(&new), &defaults, self.inner.backend.memory.seed())?;
        let before = origins.find(&new.name).map(|(_, domain)| domain);
        let mut change =
            RulesChange { findings: lint(std::slice::from_ref(&new), &defaults), ..compared(before, &new) };
        change.domain = new.name;
        Ok(change)
    }

    /// Returns the rules of a text as they would be in force, for comparison with those that are.
    ///
    /// # Errors
    /// Returns every mistake in the text.
    pub fn list_rules(&self, domain: Option<&str>, text: &str) -> Result<DomainListing, Problems> {
        let defaults = self.inner.defaults;
        let new = read_for(domain, text, &defaults)?;
        let compiled =
            RuleSet::compile(std::slice::from_ref(&new), &defaults, self.inner.backend.memory.seed())?;
        let listing = compiled.listing().into_iter().next();
        Ok(listing.unwrap_or_else(|| unreachable!("one domain was compiled")))
    }
}

/// Parses rules of the catalog, for `domain` if it is given.
fn read_for(domain: Option<&str>, text: &str, defaults: &Defaults) -> Result<Domain, Problems> {
    match domain {
        Some(domain) => read(Origin::Catalog, domain, text, defaults),
        None => file::load("rules", text, defaults),
    }
}

/// Parses all texts of an origin. Returns every mistake in all of them.
pub(super) fn read_all(
    origin: Origin,
    rules: &[RulesText],
    defaults: &Defaults,
) -> Result<Vec<Domain>, Problems> {
    let (mut domains, mut problems) = (Vec::new(), Problems::default());
    for RulesText { domain, text } in rules {
        match read(origin, domain, text, defaults) {
            Ok(domain) => domains.push(domain),
            Err(mut wrong) => problems.0.append(&mut wrong.0),
        }
    }
    if problems.0.is_empty() { Ok(domains) } else { Err(problems) }
}

/// Parses the rules of a domain. Messages name the origin and the domain.
fn read(origin: Origin, domain: &str, text: &str, defaults: &Defaults) -> Result<Domain, Problems> {
    let source = format!("{origin}:{domain}");
    let read = file::load(&source, text, defaults)?;
    if domain != read.name {
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
