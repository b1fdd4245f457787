//! Compiles rules from the model into the tree.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use std::sync::Arc;

use hashbrown::HashTable;
use tidegate_core::{Key, KeySeed, Limit, Window};
use tidegate_stores::Force;

use super::limit_spec::{Defaults, LimitSpec, SpecError};
use super::model::{CODE, Domain, Rule, TierLimit};
use super::path::Path;
use super::pattern::Pattern;
use super::patterns::Patterns;
use super::problem::{Problem, Problems};
use super::tree::{
    Branch, Complexity, DomainTree, LimitEntry, LimitSet, Node, RuleEntry, RuleSet, WrittenLimits,
};
use crate::limit_terms::LimitTerms;
use crate::tenants::table::Tenants;

impl RuleSet {
    /// Creates a rule set without rules.
    pub(crate) fn empty(seed: KeySeed) -> Self {
        Self {
            seed,
            domains: Arc::default(),
            by_name: Arc::default(),
            tenants: Tenants::default(),
            fast_path: Complexity::Tenant,
            defaults: Defaults::default(),
            generation: 0,
            count_denied: false,
            values_counted: Arc::default(),
        }
    }

    /// Compiles domains. The keys of counters are built with `seed`.
    pub(crate) fn compile(domains: &[Domain], defaults: &Defaults, seed: KeySeed) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let mut by_name = HashTable::with_capacity(domains.len());
        let mut trees: Vec<DomainTree> = Vec::with_capacity(domains.len());
        for domain in domains {
            let hash = seed.text(&domain.name).mark;
            let same = |index: &u32| *trees[*index as usize].name == *domain.name;
            if by_name.find(hash, same).is_some() {
                let message =
                    format!("domain {:?} is defined twice; give each domain one place", domain.name);
                problems.0.push(problem(domain, "domain", message));
                continue;
            }
            let hash_of = |index: &u32| seed.text(&trees[*index as usize].name).mark;
            by_name.insert_unique(hash, trees.len() as u32, hash_of);
            let rules_before = trees.iter().map(|tree| tree.rules.len() as u32).sum();
            let mut compiler = Compiler::new(domain, defaults, seed, rules_before);
            compiler.compile();
            problems.0.append(&mut compiler.problems);
            trees.push(compiler.tree);
        }
        if !problems.0.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            seed,
            domains: trees.into(),
            by_name: Arc::new(by_name),
            tenants: Tenants::default(),
            fast_path: Complexity::Tenant,
            defaults: *defaults,
            generation: 0,
            count_denied: defaults.count_denied,
            values_counted: Arc::default(),
        })
    }
}

fn problem(domain: &Domain, field: &str, message: String) -> Problem {
    Problem { file: domain.source.clone(), place: None, field: field.to_owned(), message }
}

/// The compilation of one domain.
struct Compiler<'a> {
    domain: &'a Domain,
    defaults: &'a Defaults,
    seed: KeySeed,
    /// The number of rules in the domains before this one.
    rules_before: u32,
    tree: DomainTree,
    /// The parent, key and value of every rule so far. The value is empty if any value matches.
    seen: HashSet<(u32, &'a str, &'a str)>,
    problems: Vec<Problem>,
}

/// The seed of fingerprints that must be the same on every node.
const STABLE: KeySeed = KeySeed(0);

/// The most tiers of a domain. The index of a tier has 16 bits.
const MAX_TIERS: usize = u16::MAX as usize;

/// Collects the names of all tiers in rules.
fn name_tiers<'a>(rules: &'a [Rule], names: &mut BTreeSet<&'a str>) {
    for rule in rules {
        names.extend(rule.tiers.keys().map(String::as_str));
        name_tiers(&rule.rules, names);
    }
}

impl<'a> Compiler<'a> {
    fn new(domain: &'a Domain, defaults: &'a Defaults, seed: KeySeed, rules_before: u32) -> Self {
        let mut names: BTreeSet<&str> = domain.tenants.values().map(String::as_str).collect();
        name_tiers(&domain.rules, &mut names);
        let tiers: Vec<Box<str>> = names.into_iter().map(Into::into).collect();
        let mut tenants = HashTable::with_capacity(domain.tenants.len());
        for (tenant, tier) in &domain.tenants {
            let index = tiers.partition_point(|known| **known < **tier) as u16;
            let entry: (Box<str>, u16) = (tenant.as_str().into(), index);
            tenants.insert_unique(seed.text(tenant).mark, entry, |(name, _)| seed.text(name).mark);
        }
        let tree = DomainTree {
            name: domain.name.as_str().into(),
            tenant_key: domain.tenant.as_deref().map(Into::into),
            hierarchical: domain.hierarchical,
            tenants,
            tiers,
            has_replaces: false,
            inline_limits: domain.inline_limits,
            forward_auth: domain.forward_auth.clone(),
            nodes: vec![Node::default()],
            rules: Vec::new(),
        };
        Self { domain, defaults, seed, rules_before, tree, seen: HashSet::new(), problems: Vec::new() }
    }

    fn compile(&mut self) {
        if self.domain.name.is_empty() {
            self.fault("domain", "must not be empty".to_owned());
        }
        if self.tree.tiers.len() > MAX_TIERS {
            let found = self.tree.tiers.len();
            self.fault("tiers", format!("a domain has at most {MAX_TIERS} tiers, got {found}"));
            return;
        }
        let root = Path::root(&self.domain.name);
        let domain = self.domain;
        for rule in &domain.rules {
            self.add(rule, 0, &root);
        }
        for branch in self.tree.nodes.iter_mut().flat_map(|node| &mut node.branches) {
            branch.patterns.index();
        }
        if self.tree.has_replaces {
            self.tree.rules.iter_mut().for_each(|rule| rule.complexity = Complexity::General);
        }
        for rule in self.tree.rules.iter_mut().filter(|rule| rule.complexity < Complexity::General) {
            rule.fast_path_index = rule.global_index;
        }
    }

    fn fault(&mut self, field: &str, message: String) {
        self.problems.push(problem(self.domain, field, message));
    }

    /// Adds a rule and its child rules below a node.
    fn add(&mut self, rule: &'a Rule, parent: u32, parent_path: &Path) {
        let path = parent_path.with(rule);
        if rule.key.is_empty() {
            self.fault(&path.id, "key must not be empty".to_owned());
        }
        let node = self.tree.nodes.len() as u32;
        let entry = self.entry(rule, &path);
        self.tree.rules.push(entry);
        self.tree.nodes.push(Node::default());
        if self.seen.insert((parent, &rule.key, rule.value.as_deref().unwrap_or_default())) {
            self.attach(rule, parent, node);
        } else {
            self.fault(&path.id, "is defined twice at one level; merge the two rules".to_owned());
        }
        for child in &rule.rules {
            self.add(child, node, &path);
        }
    }

    /// Adds a node to its parent.
    fn attach(&mut self, rule: &Rule, parent: u32, node: u32) {
        let seed = self.seed;
        let branch = self.tree.nodes[parent as usize].branch_mut(&rule.key, seed);
        match rule.value.as_deref().filter(|value| !value.is_empty()) {
            None => branch.any = Some(node),
            Some(value) if Pattern::is_pattern(value) => branch.patterns.push(Pattern::new(value), node),
            Some(value) => {
                let entry: (Box<str>, u32) = (value.into(), node);
                branch.exact.insert_unique(seed.text(value).mark, entry, |(value, _)| seed.text(value).mark);
            }
        }
    }

    fn entry(&mut self, rule: &Rule, path: &Path) -> RuleEntry {
        let own = rule.limits.iter().flat_map(|limit| &limit.replaces);
        let replaces: BTreeSet<&str> = rule.replaces.iter().chain(own).map(String::as_str).collect();
        self.tree.has_replaces |= !replaces.is_empty();
        let applies =
            |entry: &LimitEntry| !entry.given_name.as_deref().is_some_and(|name| replaces.contains(name));
        let written = self.written(rule);
        let limits = self.limits(&written, path);
        let tiers = rule.tiers.iter().map(|(tier, changes)| {
            let index = self.tree.tiers.partition_point(|known| **known < **tier) as u16;
            let limits = self.tier(rule, path, &limits, (tier, changes));
            (index, limits.into_iter().filter(applies).collect::<Vec<_>>())
        });
        let tiers: Vec<_> = tiers.collect();
        let limits: Vec<(&LimitSpec, LimitEntry)> =
            written.iter().zip(limits).filter_map(|(spec, limit)| Some((spec, limit?))).collect();
        let limits = limits.into_iter().filter(|(_, entry)| applies(entry));
        let (specs, limits): (Vec<LimitSpec>, Vec<LimitEntry>) =
            limits.map(|(spec, entry)| (spec.clone(), entry)).unzip();
        let complexity = match &self.domain.tenant {
            _ if rule.enforce_percent != 100 => Complexity::General,
            Some(key) if *key == rule.key && rule.tiers.is_empty() => Complexity::Tenant,
            Some(key) if *key == rule.key => Complexity::Tier,
            _ => Complexity::Plain,
        };
        if rule.enforce_percent > 100 {
            let found = rule.enforce_percent;
            self.fault(&path.id, format!("enforce_percent must be between 0 and 100, got {found}"));
        }
        if !rule.tiers.is_empty() && self.domain.tenant.is_none() {
            self.fault(
                &path.id,
                "has tiers, but the domain does not say which key names the tenant".to_owned(),
            );
        }
        let texts = || path.texts.iter().map(String::as_str);
        let force = match (rule.shadow_mode, rule.quota_mode) {
            (true, _) => Force::Shadow,
            (false, true) => Force::Quota,
            (false, false) => Force::Enforced,
        };
        RuleEntry {
            number: self.tree.rules.len() as u32,
            global_index: self.rules_before + self.tree.rules.len() as u32,
            fast_path_index: u32::MAX,
            complexity,
            personal: self.domain.tenant.is_some() && !limits.is_empty(),
            terms: LimitTerms::of_rule(force),
            id: rule.name.as_deref().unwrap_or(&path.id).into(),
            path: path.dotted.as_str().into(),
            counts: Arc::default(),
            key: self.seed.texts(texts()),
            stable_key: STABLE.texts(texts()),
            varies: path.varies.last() == Some(&true),
            path_varies: path.varies.clone().into(),
            limits: numbered(limits),
            tiers: tiers.into_iter().map(|(tier, set)| (tier, with_numbers_of(&specs, set))).collect(),
            concurrency: self.concurrency(rule, path).map(Arc::new),
            unlimited: rule.unlimited,
            replaces: replaces.iter().map(|name| (*name).into()).collect(),
            enforce_percent: rule.enforce_percent,
            shadow_mode: rule.shadow_mode,
            quota_mode: rule.quota_mode,
            detailed_metric: rule.detailed_metric,
            value_to_metric: rule.value_to_metric,
            hide_keys: rule.hide_keys,
            warn_at: self.warn_at(rule, path),
            on_store_error: rule.on_store_error,
            metadata: rule.metadata.clone(),
            written: WrittenLimits { limits: specs, tiers: rule.tiers.clone() },
        }
    }

    /// Returns the percentages at which the rule warns, sorted.
    fn warn_at(&mut self, rule: &Rule, path: &Path) -> Box<[u8]> {
        if let Some(found) = rule.warn_at.iter().find(|percent| !(1..=100).contains(*percent)) {
            self.fault(&path.id, format!("warn_at must have percentages from 1 to 100, got {found}"));
        }
        let sorted: BTreeSet<u8> = rule.warn_at.iter().copied().collect();
        sorted.into_iter().collect()
    }

    /// Returns the limits of a rule with their algorithms. If tiers or overrides may change the numbers, a
    /// small number does not select another algorithm, because the counter has to survive the change.
    fn written(&self, rule: &Rule) -> Vec<LimitSpec> {
        let in_code = self.domain.source == CODE && self.domain.tenant.is_none();
        let one = |spec: &LimitSpec| if in_code { spec.written_in_code(self.defaults) } else { spec.clone() };
        rule.limits.iter().map(one).collect()
    }

    /// Compiles the limits of a rule, in order; `None` for invalid ones.
    fn limits(&mut self, written: &[LimitSpec], path: &Path) -> Vec<Option<LimitEntry>> {
        let mut names = HashSet::new();
        let mut limits = Vec::with_capacity(written.len());
        for spec in written {
            let name = spec.effective_name();
            limits.push(self.limit(path, "", &name, spec));
            if names.contains(&name) {
                self.fault(&path.id, format!("two limits are called {name:?}; name them"));
            }
            names.insert(name);
        }
        limits
    }

    /// Compiles the limits of a rule for a tier.
    fn tier(
        &mut self,
        rule: &Rule,
        path: &Path,
        limits: &[Option<LimitEntry>],
        (tier, changes): (&str, &BTreeMap<String, TierLimit>),
    ) -> Vec<LimitEntry> {
        let names: Vec<String> = rule.limits.iter().map(LimitSpec::effective_name).collect();
        for name in changes.keys().filter(|name| !names.contains(name)) {
            let message = format!("tier {tier:?} changes limit {name:?}, which the rule does not have");
            self.fault(&path.id, message);
        }
        let prefix = format!("tier {tier:?}, ");
        let mut adapted = Vec::with_capacity(limits.len());
        for ((spec, name), limit) in rule.limits.iter().zip(&names).zip(limits) {
            // An invalid limit has been reported already.
            let Some(limit) = limit else { continue };
            adapted.extend(match changes.get(name) {
                Some(TierLimit::Unlimited) => None,
                Some(TierLimit::Change(change)) => self.limit(path, &prefix, name, &spec.changed(change)),
                None => Some(limit.clone()),
            });
        }
        adapted
    }

    /// Compiles a limit. `name` is its name in every tier; `prefix` begins the message if it is invalid.
    fn limit(&mut self, path: &Path, prefix: &str, name: &str, spec: &LimitSpec) -> Option<LimitEntry> {
        match spec.entry_named(name, self.defaults, self.seed) {
            Ok(entry) => Some(entry),
            Err(error) => {
                self.fault(&path.id, format!("{prefix}limit {name:?}: {}", error.reason));
                None
            }
        }
    }

    fn concurrency(&mut self, rule: &Rule, path: &Path) -> Option<LimitEntry> {
        let concurrency = rule.concurrency?;
        let us = u64::try_from(concurrency.timeout.as_micros()).unwrap_or(u64::MAX);
        match Limit::concurrency(concurrency.max, Window::Period { us }) {
            Ok(limit) => {
                let name: Box<str> = "concurrency".into();
                // The salt does not depend on the timeout: slots are kept when the timeout changes.
                let Key { mark: salt, .. } = self.seed.texts([&*name]);
                Some(LimitEntry { name, given_name: None, limit, salt, number: 0 })
            }
            Err(error) => {
                self.fault(&path.id, format!("concurrency: {error}"));
                None
            }
        }
    }
}

fn numbered(limits: Vec<LimitEntry>) -> LimitSet {
    let numbered = |(number, entry)| LimitEntry { number: number as u16, ..entry };
    limits.into_iter().enumerate().map(numbered).collect()
}

/// Numbers the limits of a tier like the rule's own limits that they replace.
fn with_numbers_of(own: &[LimitSpec], tier: Vec<LimitEntry>) -> LimitSet {
    let number = |entry: &LimitEntry| own.iter().position(|spec| *spec.effective_name() == *entry.name);
    let numbered = |entry| LimitEntry { number: number(&entry).unwrap_or_default() as u16, ..entry };
    tier.into_iter().map(numbered).collect()
}

/// Returns the salt of a limit, which is identified by its name and family.
fn salt(seed: KeySeed, name: &str, limit: &Limit) -> u64 {
    let Key { mark, .. } = seed.texts([name, &limit.family()]);
    mark
}

/// Returns the salt of a limit without a name, which is identified by all of its numbers.
pub(crate) fn salt_of_numbers(seed: KeySeed, limit: &Limit) -> u64 {
    let [requests, burst] = [limit.requests(), limit.burst()].map(|number| number.to_string());
    let mode = if limit.queues() { "queue" } else { "" };
    let Key { mark, .. } = seed.texts(["", &limit.family(), &requests, &burst, mode]);
    mark
}

impl LimitSpec {
    pub(crate) fn entry_named(
        &self,
        name: &str,
        defaults: &Defaults,
        seed: KeySeed,
    ) -> Result<LimitEntry, SpecError> {
        let limit = self.build(defaults)?;
        let salt = salt(seed, name, &limit);
        let given_name = self.name.as_deref().map(Into::into);
        Ok(LimitEntry { name: name.into(), given_name, limit, salt, number: 0 })
    }
}

/// Up to this number of branches, a linear search is as fast as a hash table.
const FEW_BRANCHES: usize = 8;

impl Node {
    /// Returns the branch of a key, and adds it if there is none yet.
    fn branch_mut(&mut self, key: &str, seed: KeySeed) -> &mut Branch {
        if let Some(index) = self.index_of(key, seed) {
            return &mut self.branches[index];
        }
        let index = self.branches.len();
        self.branches.push(Branch {
            key: key.into(),
            exact: HashTable::new(),
            patterns: Patterns::default(),
            any: None,
        });
        let branches = &self.branches;
        let hash = |index: &u32| seed.text(&branches[*index as usize].key).mark;
        match &mut self.by_key {
            Some(table) => {
                table.insert_unique(seed.text(key).mark, index as u32, hash);
            }
            None if index == FEW_BRANCHES => {
                let mut table = HashTable::new();
                for index in 0..=index as u32 {
                    table.insert_unique(hash(&index), index, hash);
                }
                self.by_key = Some(Box::new(table));
            }
            None => {}
        }
        &mut self.branches[index]
    }
}
