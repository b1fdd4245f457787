//! From rules as written to rules as matched.

use hashbrown::HashTable;
use tidegate_core::{Key, KeySeed, Limit, Window};

use super::limit_spec::{Defaults, LimitSpec};
use super::model::{Domain, Rule, TierLimit};
use super::pattern::Pattern;
use super::problem::{Problem, Problems};
use super::tree::{Branch, DomainTree, LimitEntry, LimitSet, Node, RuleEntry, RuleSet};

impl RuleSet {
    /// Compiles domains for counters whose keys are built with `seed`.
    pub(crate) fn compile(
        domains: &[Domain],
        defaults: &Defaults,
        seed: KeySeed,
        generation: u64,
    ) -> Result<Self, Problems> {
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
            let mut compiler = Compiler::new(domain, defaults, seed);
            compiler.compile();
            problems.0.append(&mut compiler.problems);
            trees.push(compiler.tree);
        }
        if !problems.0.is_empty() {
            return Err(problems);
        }
        Ok(Self { seed, domains: trees, by_name, generation, count_denied: defaults.count_denied })
    }
}

fn problem(domain: &Domain, field: &str, message: String) -> Problem {
    Problem { file: domain.source.clone(), place: None, field: field.to_owned(), message }
}

/// One domain on its way from written to matched.
struct Compiler<'a> {
    domain: &'a Domain,
    defaults: &'a Defaults,
    seed: KeySeed,
    tree: DomainTree,
    problems: Vec<Problem>,
}

/// The way from the root to a rule.
#[derive(Clone)]
struct Path {
    id: String,
    texts: Vec<String>,
    varies: Vec<bool>,
}

/// The seed of what must be the same on every node.
const STABLE: KeySeed = KeySeed(0);

impl<'a> Compiler<'a> {
    fn new(domain: &'a Domain, defaults: &'a Defaults, seed: KeySeed) -> Self {
        let mut tiers: Vec<Box<str>> = domain.tenants.values().map(|tier| tier.as_str().into()).collect();
        tiers.sort_unstable();
        tiers.dedup();
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
            nodes: vec![Node::default()],
            rules: Vec::new(),
        };
        Self { domain, defaults, seed, tree, problems: Vec::new() }
    }

    fn compile(&mut self) {
        if self.domain.name.is_empty() {
            self.fault("domain", "must not be empty".to_owned());
        }
        let root = Path { id: String::new(), texts: vec![self.domain.name.clone()], varies: Vec::new() };
        for rule in &self.domain.rules {
            self.add(rule, 0, &root);
        }
    }

    fn fault(&mut self, field: &str, message: String) {
        self.problems.push(problem(self.domain, field, message));
    }

    fn add(&mut self, rule: &Rule, parent: u32, above: &Path) {
        let path = above.with(rule);
        if rule.key.is_empty() {
            self.fault(&path.id, "key must not be empty".to_owned());
        }
        let node = self.tree.nodes.len() as u32;
        let entry = self.entry(rule, &path);
        self.tree.rules.push(entry);
        self.tree.nodes.push(Node::default());
        if !self.attach(rule, parent, node) {
            self.fault(&path.id, "is defined twice at one level; merge the two rules".to_owned());
        }
        for child in &rule.rules {
            self.add(child, node, &path);
        }
    }

    /// Hangs a node into its parent; false if there is one for that key and value already.
    fn attach(&mut self, rule: &Rule, parent: u32, node: u32) -> bool {
        let branches = &mut self.tree.nodes[parent as usize].branches;
        let index = branches.iter().position(|branch| *branch.key == *rule.key).unwrap_or_else(|| {
            let key = rule.key.as_str().into();
            branches.push(Branch { key, exact: HashTable::new(), patterns: Vec::new(), any: None });
            branches.len() - 1
        });
        let branch = &mut branches[index];
        match rule.value.as_deref().filter(|value| !value.is_empty()) {
            None => branch.any.replace(node).is_none(),
            Some(value) if Pattern::is_pattern(value) => {
                let fresh = branch.patterns.iter().all(|(pattern, _)| pattern.as_str() != value);
                branch.patterns.push((Pattern::new(value), node));
                fresh
            }
            Some(value) => {
                let hash = self.seed.text(value).mark;
                let fresh = branch.exact.find(hash, |(known, _)| **known == *value).is_none();
                let entry: (Box<str>, u32) = (value.into(), node);
                branch.exact.insert_unique(hash, entry, |(value, _)| self.seed.text(value).mark);
                fresh
            }
        }
    }

    fn entry(&mut self, rule: &Rule, path: &Path) -> RuleEntry {
        let limits = self.limits(rule, path, |spec| Some(spec.clone()));
        // A rule without tiers need not look for the tenant.
        let known_tiers = if rule.tiers.is_empty() { Vec::new() } else { self.tree.tiers.clone() };
        let tiers = known_tiers.iter().map(|tier| self.tier(rule, path, tier)).collect();
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
        RuleEntry {
            id: rule.name.as_deref().unwrap_or(&path.id).into(),
            key: self.seed.texts(texts()),
            stable_key: STABLE.texts(texts()),
            varies: path.varies.last() == Some(&true),
            path_varies: path.varies.clone().into(),
            limits,
            tiers,
            concurrency: self.concurrency(rule, path),
            unlimited: rule.unlimited,
            enforce_percent: rule.enforce_percent,
            shadow_mode: rule.shadow_mode,
            quota_mode: rule.quota_mode,
            detailed_metric: rule.detailed_metric,
            value_to_metric: rule.value_to_metric,
            on_store_error: rule.on_store_error,
            metadata: rule.metadata.clone(),
        }
    }

    fn tier(&mut self, rule: &Rule, path: &Path, tier: &str) -> Option<LimitSet> {
        let changes = rule.tiers.get(tier)?;
        for name in changes.keys() {
            if !rule.limits.iter().any(|spec| spec.effective_name() == *name) {
                self.fault(
                    &path.id,
                    format!("tier {tier:?} changes limit {name:?}, which the rule does not have"),
                );
            }
        }
        let adapt = |spec: &LimitSpec| match changes.get(&spec.effective_name()) {
            Some(TierLimit::Unlimited) => None,
            Some(TierLimit::Change(change)) => Some(spec.changed(change)),
            None => Some(spec.clone()),
        };
        Some(self.limits(rule, path, adapt))
    }

    /// The rule's limits, each as `adapt` would have it. A limit goes by its own name in every tier.
    fn limits(
        &mut self,
        rule: &Rule,
        path: &Path,
        adapt: impl Fn(&LimitSpec) -> Option<LimitSpec>,
    ) -> LimitSet {
        let mut limits: Vec<LimitEntry> = Vec::with_capacity(rule.limits.len());
        for written in &rule.limits {
            let Some(spec) = adapt(written) else { continue };
            let name: Box<str> = written.effective_name().into();
            if limits.iter().any(|other| other.name == name) {
                self.fault(&path.id, format!("two limits are called {name:?}; name them"));
            }
            let limit = match spec.build(self.defaults) {
                Ok(limit) => limit,
                Err(error) => {
                    self.fault(&path.id, format!("limit {name:?}: {}", error.reason));
                    continue;
                }
            };
            self.tree.has_replaces |= !spec.replaces.is_empty();
            limits.push(LimitEntry {
                salt: self.salt(&name, &limit),
                given_name: spec.name.as_deref().map(Into::into),
                replaces: spec.replaces.iter().map(|name| name.as_str().into()).collect(),
                name,
                limit,
            });
        }
        limits.into()
    }

    fn concurrency(&mut self, rule: &Rule, path: &Path) -> Option<LimitEntry> {
        let wanted = rule.concurrency?;
        let us = u64::try_from(wanted.timeout.as_micros()).unwrap_or(u64::MAX);
        match Limit::concurrency(wanted.max, Window::Period { us }) {
            Ok(limit) => {
                let name: Box<str> = "concurrency".into();
                let salt = self.salt(&name, &limit);
                Some(LimitEntry { name, given_name: None, limit, salt, replaces: Box::default() })
            }
            Err(error) => {
                self.fault(&path.id, format!("concurrency: {error}"));
                None
            }
        }
    }

    fn salt(&self, name: &str, limit: &Limit) -> u64 {
        let Key { mark, .. } = self.seed.texts([name, &limit.family()]);
        mark
    }
}

impl Path {
    /// This path and one rule more. The texts mark what kind each value is, so that the value `*`
    /// and the pattern `*` are two things.
    fn with(&self, rule: &Rule) -> Self {
        let mut path = self.clone();
        if !path.id.is_empty() {
            path.id.push('/');
        }
        path.id.push_str(&rule.key);
        path.texts.push(rule.key.clone());
        match rule.value.as_deref().filter(|value| !value.is_empty()) {
            None => {
                path.texts.push("any".to_owned());
                path.varies.push(true);
            }
            Some(value) => {
                path.id.push('=');
                path.id.push_str(value);
                let pattern = Pattern::is_pattern(value);
                path.texts.push(if pattern { "pattern" } else { "exact" }.to_owned());
                path.texts.push(value.to_owned());
                path.varies.push(pattern && !rule.share_threshold);
            }
        }
        path
    }
}
