//! The rules that a tenant's name and a descriptor lead to.

use tidegate_core::KeySeed;

use crate::request::Entry;
use crate::rules::tree::{Branch, DomainTree, RuleEntry, RuleSet, Step};

/// Entries besides the tenant's, which may be there all the same; without a value, for every value of the key.
pub(crate) type Descriptor = [(String, Option<String>)];

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// The rules of this descriptor.
    Descriptor(&'a Descriptor),
    /// Every rule whose counter follows from the tenant alone.
    Fixed,
}

/// A rule, and the entries that lead to it.
pub(super) struct Found<'r> {
    pub(super) domain_number: u32,
    pub(super) domain: &'r DomainTree,
    pub(super) rule: &'r RuleEntry,
    pub(super) stops: Vec<Stop<'r>>,
}

/// One entry on the way to a rule.
#[derive(Clone, Copy)]
pub(super) struct Stop<'r> {
    pub(super) key: &'r str,
    /// Absent where any value of the key leads here.
    pub(super) value: Option<&'r str>,
    pub(super) step: Step,
    pub(super) is_tenant: bool,
}

impl<'r> Found<'r> {
    /// Whether the tenant's entry is on the way.
    pub(super) fn names_tenant(&self) -> bool {
        self.stops.iter().any(|stop| stop.is_tenant)
    }

    /// Whether the rule's counter is another's, too: nothing on the way tells tenants apart.
    pub(super) fn is_shared(&self) -> bool {
        let mut stops = self.stops.iter().zip(&self.rule.path_varies);
        if self.names_tenant() {
            return stops.any(|(stop, varies)| stop.is_tenant && !varies && stop.step != Step::Exact);
        }
        stops.all(|(_, varies)| !varies)
    }

    /// The descriptor, if every value is known.
    pub(super) fn entries(&self) -> Option<Vec<Entry<'r>>> {
        self.stops.iter().map(|stop| stop.value.map(|value| (stop.key, value))).collect()
    }

    /// The entries besides the tenant's as text: `endpoint:POST /orders`.
    pub(super) fn text(&self) -> String {
        let others = self.stops.iter().filter(|stop| !stop.is_tenant);
        written(others.map(|stop| (stop.key, stop.value)))
    }
}

/// A descriptor as overrides have it: `key:value` or `key`, joined by `|`, with `\\` before what would mean
/// something else.
pub(super) fn written<'a>(entries: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let plain = |text: &str| text.replace('\\', r"\\").replace('|', r"\|");
    let text = |(key, value): (&str, Option<&str>)| {
        let key = plain(key).replace(':', r"\:");
        value.map_or_else(|| key.clone(), |value| format!("{key}:{}", plain(value)))
    };
    entries.map(text).collect::<Vec<_>>().join("|")
}

impl RuleSet {
    /// The rules with limits that are found, by domain and in the order of rules. Where a domain has some
    /// with the tenant's entry on the way, those without are not meant.
    pub(super) fn walk<'r>(
        &'r self,
        tenant: &'r str,
        domain: Option<&str>,
        wanted: Wanted<'r>,
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
            walk.from(0, wanted, &mut Vec::new());
            if matches!(wanted, Wanted::Fixed) || walk.found.iter().any(Found::names_tenant) {
                walk.found.retain(Found::names_tenant);
            }
            walk.found.sort_by_key(|found| found.rule.number);
            all.append(&mut walk.found);
        }
        all
    }
}

/// A walk through one domain.
struct Walk<'r> {
    seed: KeySeed,
    number: u32,
    domain: &'r DomainTree,
    tenant_key: &'r str,
    tenant: &'r str,
    found: Vec<Found<'r>>,
}

impl<'r> Walk<'r> {
    fn from(&mut self, node: u32, wanted: Wanted<'r>, stops: &mut Vec<Stop<'r>>) {
        let domain = self.domain;
        let wanted = self.besides_tenant(wanted);
        if let Some(rule) = domain.rules.get((node as usize).wrapping_sub(1)) {
            let arrived = match wanted {
                Wanted::Descriptor(rest) => rest.is_empty(),
                Wanted::Fixed => true,
            };
            if arrived && !rule.written.limits.is_empty() {
                let (domain_number, stops) = (self.number, stops.clone());
                self.found.push(Found { domain_number, domain, rule, stops });
            }
        }
        for branch in domain.nodes[node as usize].branches() {
            let is_tenant = *branch.key == *self.tenant_key;
            if is_tenant && !stops.iter().any(|stop| stop.is_tenant) {
                self.follow(branch, Some(self.tenant), true, wanted, stops);
                continue;
            }
            match wanted {
                Wanted::Descriptor([(key, value), rest @ ..]) if **key == *branch.key => match value {
                    Some(value) => {
                        self.follow(branch, Some(value), false, Wanted::Descriptor(rest), stops);
                    }
                    None => self.follow_all(branch, Wanted::Descriptor(rest), stops),
                },
                Wanted::Descriptor(_) => {}
                Wanted::Fixed => self.follow_exact(branch, wanted, stops),
            }
        }
    }

    /// What is looked for without the tenant's own entry, which is on the way anyhow: an override for
    /// `api_key` or `api_key:ann` of tenant ann is one for ann alone.
    fn besides_tenant(&self, wanted: Wanted<'r>) -> Wanted<'r> {
        let Wanted::Descriptor(mut rest) = wanted else { return wanted };
        while let [(key, value), others @ ..] = rest
            && *key == *self.tenant_key
            && value.as_ref().is_none_or(|value| *value == *self.tenant)
        {
            rest = others;
        }
        Wanted::Descriptor(rest)
    }

    fn follow(
        &mut self,
        branch: &'r Branch,
        value: Option<&'r str>,
        is_tenant: bool,
        wanted: Wanted<'r>,
        stops: &mut Vec<Stop<'r>>,
    ) {
        let Some(text) = value else { return };
        let Some((node, step)) = branch.step(text, self.seed.text(text).mark) else { return };
        self.go(node, Stop { key: &branch.key, value, step, is_tenant }, wanted, stops);
    }

    fn follow_exact(&mut self, branch: &'r Branch, wanted: Wanted<'r>, stops: &mut Vec<Stop<'r>>) {
        for (value, node) in &branch.exact {
            let stop = Stop { key: &branch.key, value: Some(value), step: Step::Exact, is_tenant: false };
            self.go(*node, stop, wanted, stops);
        }
    }

    fn follow_all(&mut self, branch: &'r Branch, wanted: Wanted<'r>, stops: &mut Vec<Stop<'r>>) {
        self.follow_exact(branch, wanted, stops);
        let stop = |step| Stop { key: &branch.key, value: None, step, is_tenant: false };
        for (_, node) in &branch.patterns {
            self.go(*node, stop(Step::Pattern), wanted, stops);
        }
        if let Some(node) = branch.any {
            self.go(node, stop(Step::Any), wanted, stops);
        }
    }

    fn go(&mut self, node: u32, stop: Stop<'r>, wanted: Wanted<'r>, stops: &mut Vec<Stop<'r>>) {
        stops.push(stop);
        self.from(node, wanted, stops);
        stops.pop();
    }
}
