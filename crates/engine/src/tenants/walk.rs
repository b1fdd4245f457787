//! Finds the rules that a tenant and a descriptor lead to.

use tidegate_core::KeySeed;

use crate::request::Entry;
use crate::rules::tree::{Branch, DomainTree, RuleEntry, RuleSet, Step};

/// The entries of a descriptor; the tenant's may be left out. An entry without a value matches every value of
/// its key.
pub(crate) type Descriptor = [(String, Option<String>)];

/// The rules to look for.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The rules for this descriptor.
    Descriptor(&'a Descriptor),
    /// Every rule whose counters follow from the tenant and fixed values.
    Fixed,
}

/// A rule, and the entries that lead to it.
pub(super) struct Found<'r> {
    pub(super) domain_number: u32,
    pub(super) domain: &'r DomainTree,
    pub(super) rule: &'r RuleEntry,
    pub(super) stops: Vec<Stop<'r>>,
}

/// One entry on the path to a rule.
#[derive(Clone, Copy)]
pub(super) struct Stop<'r> {
    pub(super) key: &'r str,
    /// The value; `None` if any value of the key leads to the rule.
    pub(super) value: Option<&'r str>,
    pub(super) step: Step,
    pub(super) is_tenant: bool,
}

impl<'r> Found<'r> {
    /// Returns whether the tenant's entry is on the path.
    pub(super) fn names_tenant(&self) -> bool {
        self.stops.iter().any(|stop| stop.is_tenant)
    }

    /// Returns whether the counters of the rule are shared with other tenants, because nothing on the path
    /// distinguishes tenants.
    pub(super) fn is_shared(&self) -> bool {
        let mut stops = self.stops.iter().zip(&self.rule.path_varies);
        if self.names_tenant() {
            return stops.any(|(stop, varies)| stop.is_tenant && !varies && stop.step != Step::Exact);
        }
        stops.all(|(_, varies)| !varies)
    }

    /// Returns the entries, if every value is known.
    pub(super) fn entries(&self) -> Option<Vec<Entry<'r>>> {
        self.stops.iter().map(|stop| stop.value.map(|value| (stop.key, value))).collect()
    }

    /// Returns the entries without the tenant's as text, such as `endpoint:POST /orders`.
    pub(super) fn text(&self) -> String {
        let others = self.stops.iter().filter(|stop| !stop.is_tenant);
        format_descriptor(others.map(|stop| (stop.key, stop.value)))
    }
}

/// Formats a descriptor as in overrides: `key:value` or `key`, joined by `|`, with special characters escaped
/// by `\`.
pub(super) fn format_descriptor<'a>(entries: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let plain = |text: &str| text.replace('\\', r"\\").replace('|', r"\|");
    let text = |(key, value): (&str, Option<&str>)| {
        let key = plain(key).replace(':', r"\:");
        value.map_or_else(|| key.clone(), |value| format!("{key}:{}", plain(value)))
    };
    entries.map(text).collect::<Vec<_>>().join("|")
}

impl RuleSet {
    /// Returns the matching rules that have limits, by domain and in the order of rules. If a domain has
    /// matching rules with the tenant's entry on the path, those without it are left out.
    pub(super) fn walk<'r>(
        &'r self,
        tenant: &'r str,
        domain: Option<&str>,
        target: Target<'r>,
    ) -> Vec<Found<'r>> {
        let mut all = Vec::new();
        for (number, tree) in self.domains.iter().enumerate() {
            let Some(tenant_key) = tree.tenant_key.as_deref() else { continue };
            if domain.is_some_and(|domain| *tree.name != *domain) {
                continue;
            }
            let mut walk = Walk {
                seed: self.seed,
                number: number as u32,
                domain: tree,
                tenant_key,
                tenant,
                found: vec![],
            };
            walk.from(0, target, &mut Vec::new());
            if matches!(target, Target::Fixed) || walk.found.iter().any(Found::names_tenant) {
                walk.found.retain(Found::names_tenant);
            }
            walk.found.sort_by_key(|found| found.rule.number);
            all.append(&mut walk.found);
        }
        all
    }
}

/// The search through the tree of one domain.
struct Walk<'r> {
    seed: KeySeed,
    number: u32,
    domain: &'r DomainTree,
    tenant_key: &'r str,
    tenant: &'r str,
    found: Vec<Found<'r>>,
}

impl<'r> Walk<'r> {
    fn from(&mut self, node: u32, target: Target<'r>, stops: &mut Vec<Stop<'r>>) {
        let domain = self.domain;
        let target = self.besides_tenant(target);
        if let Some(rule) = domain.rules.get((node as usize).wrapping_sub(1)) {
            let arrived = match target {
                Target::Descriptor(rest) => rest.is_empty(),
                Target::Fixed => true,
            };
            if arrived && !rule.written.limits.is_empty() {
                let (domain_number, stops) = (self.number, stops.clone());
                self.found.push(Found { domain_number, domain, rule, stops });
            }
        }
        for branch in domain.nodes[node as usize].branches() {
            let is_tenant = *branch.key == *self.tenant_key;
            if is_tenant && !stops.iter().any(|stop| stop.is_tenant) {
                self.follow(branch, Some(self.tenant), true, target, stops);
                continue;
            }
            match target {
                Target::Descriptor([(key, value), rest @ ..]) if **key == *branch.key => match value {
                    Some(value) => {
                        self.follow(branch, Some(value), false, Target::Descriptor(rest), stops);
                    }
                    None => self.follow_all(branch, Target::Descriptor(rest), stops),
                },
                Target::Descriptor(_) => {}
                Target::Fixed => self.follow_exact(branch, target, stops),
            }
        }
    }

    /// Removes the tenant's own entry from the beginning of the target, because it is on the path anyway: an
    /// override for `api_key` or `api_key:ann` of tenant ann is the same as one without a descriptor.
    fn besides_tenant(&self, target: Target<'r>) -> Target<'r> {
        let Target::Descriptor(mut rest) = target else { return target };
        while let [(key, value), others @ ..] = rest
            && *key == *self.tenant_key
            && value.as_ref().is_none_or(|value| *value == *self.tenant)
        {
            rest = others;
        }
        Target::Descriptor(rest)
    }

    fn follow(
        &mut self,
        branch: &'r Branch,
        value: Option<&'r str>,
        is_tenant: bool,
        target: Target<'r>,
        stops: &mut Vec<Stop<'r>>,
    ) {
        let Some(text) = value else { return };
        let Some((node, step)) = branch.step(text, self.seed.text(text).mark) else { return };
        self.go(node, Stop { key: &branch.key, value, step, is_tenant }, target, stops);
    }

    fn follow_exact(&mut self, branch: &'r Branch, target: Target<'r>, stops: &mut Vec<Stop<'r>>) {
        for (value, node) in &branch.exact {
            let stop = Stop { key: &branch.key, value: Some(value), step: Step::Exact, is_tenant: false };
            self.go(*node, stop, target, stops);
        }
    }

    fn follow_all(&mut self, branch: &'r Branch, target: Target<'r>, stops: &mut Vec<Stop<'r>>) {
        self.follow_exact(branch, target, stops);
        let stop = |step| Stop { key: &branch.key, value: None, step, is_tenant: false };
        for node in branch.patterns.nodes() {
            self.go(node, stop(Step::Pattern), target, stops);
        }
        if let Some(node) = branch.any {
            self.go(node, stop(Step::Any), target, stops);
        }
    }

    fn go(&mut self, node: u32, stop: Stop<'r>, target: Target<'r>, stops: &mut Vec<Stop<'r>>) {
        stops.push(stop);
        self.from(node, target, stops);
        stops.pop();
    }
}
