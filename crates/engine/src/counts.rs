//! Counts of allowed and denied requests per rule, for metrics.
//!
//! The counters of a rule are created when rules are loaded, and survive reloads. A front end counts a decision once,
//! with [`Decision::count`]; the library by itself counts nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;
use serde::Serialize;
use tidegate_core::Limit;

use crate::decision::{Charged, Decision, Item};
use crate::inline::INLINE;
use crate::limiter::Limiter;
use crate::permit::Acquired;
use crate::request::{Entry, Request};
use crate::rules::tree::{RuleEntry, RuleSet};

/// The most distinct values of keys that are counted separately, over all rules. Further values are counted as
/// `other`.
pub const MAX_VALUES: usize = 1_000;

/// The value under which further values are counted.
const OTHER: &str = "other";

/// The most bytes of a value that metrics show. Values that differ only after that are counted together.
const VALUE_BYTES: usize = 256;

/// The counts of one rule since the process started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// The domain.
    pub domain: String,
    /// The name of the rule, or its path.
    pub rule: String,
    /// The path of the rule in the notation of envoyproxy/ratelimit, `key_value.key`, including values that are
    /// counted separately.
    pub path: String,
    /// The value that is counted separately, if the rule has such metrics; `other` beyond [`MAX_VALUES`].
    pub value: Option<String>,
    /// The counts.
    pub counts: Counts,
}

/// Counts of decisions and hits. A hit is a unit of cost, as in envoyproxy/ratelimit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Decisions in which the rule allowed the request.
    pub allowed: u64,
    /// Decisions in which the rule denied the request.
    pub denied: u64,
    /// Decisions in which the rule would have denied the request, but was in shadow mode.
    pub shadow_denied: u64,
    /// Hits of all decisions.
    pub total_hits: u64,
    /// Hits that were over the limit.
    pub over_limit: u64,
    /// Hits within the limit, but above 80 % of it.
    pub near_limit: u64,
    /// Hits within the limit.
    pub within_limit: u64,
    /// Hits over the limit that were allowed because of shadow mode.
    pub shadow_mode: u64,
}

#[derive(Default)]
pub(crate) struct RuleCounts {
    all: Atomics,
    values: RwLock<HashMap<Box<str>, Arc<OfValue>>>,
}

/// The counts for one value.
struct OfValue {
    /// The path of the rule with the value.
    path: String,
    counts: Atomics,
}

/// The counters behind [`Counts`].
#[derive(Default)]
struct Atomics {
    allowed: AtomicU64,
    denied: AtomicU64,
    shadow_denied: AtomicU64,
    allowed_hits: AtomicU64,
    over_limit: AtomicU64,
    near_limit: AtomicU64,
    shadow_mode: AtomicU64,
}

/// The outcome of a rule in one decision.
#[derive(Clone, Copy)]
struct Tally {
    denied: bool,
    shadow_denied: bool,
    cost: u64,
    near: u64,
}

impl Decision {
    /// Counts this decision for [`Limiter::counts`]. `request` is the request that was decided. Requests with a cost
    /// of 0 are not counted; neither are decisions of a service, which counts them itself. Returns whether a limit
    /// passed a percentage of its rule's `warn_at`; [`Decision::crossings`] returns these limits.
    pub fn count(&self, request: &Request<'_>) -> bool {
        let Some(charged) = self.charged() else { return false };
        let mut crossed = false;
        let same_rule = |a: &Item, b: &Item| (a.rule, a.descriptor) == (b.rule, b.descriptor);
        for items in charged.items.chunk_by(same_rule) {
            let rule = charged.rule(&items[0]);
            let descriptor = request.descriptors().nth(usize::from(items[0].descriptor));
            let Some((entries, cost @ 1..)) = descriptor else { continue };
            let tally = charged.tally(items, cost);
            rule.counts.all.add(tally);
            if !rule.warn_at.is_empty() {
                crossed |= charged.has_crossed(rule, items, cost);
            }
            if rule.detailed_metric || rule.value_to_metric {
                rule.counts.value(rule, entries, &charged.rules().values_counted).counts.add(tally);
            }
        }
        crossed
    }
}

impl Charged {
    fn tally(&self, items: &[Item], cost: u64) -> Tally {
        let mut tally = Tally { denied: false, shadow_denied: false, cost, near: 0 };
        for item in items {
            match (item.verdict.allowed(), item.is_shadow()) {
                (false, false) => tally.denied = true,
                (false, true) => tally.shadow_denied = true,
                (true, _) => {
                    let of = self.numbers(item).map_or(0, Limit::burst);
                    let used = of.saturating_sub(item.verdict.remaining);
                    tally.near =
                        tally.near.max(used.saturating_sub(of / 10 * 8 + of % 10 * 8 / 10).min(cost));
                }
            }
        }
        tally
    }
}

impl RuleCounts {
    /// Counts slots that were acquired.
    pub(crate) fn count_slots(&self, cost: u64) {
        self.all.add(Tally { denied: false, shadow_denied: false, cost, near: 0 });
    }

    /// Returns the counters for the value of these entries.
    fn value(&self, rule: &RuleEntry, entries: &[Entry<'_>], told_apart: &AtomicUsize) -> Arc<OfValue> {
        let text = rule.metric_value(entries);
        let full = || told_apart.load(Relaxed) >= MAX_VALUES;
        let known = |values: &HashMap<Box<str>, Arc<OfValue>>| {
            let found = values.get(&*text);
            found.or_else(|| values.get(OTHER).filter(|_| full())).map(Arc::clone)
        };
        // Most values of a flood return here, without taking the write lock.
        if let Some(found) = known(&self.values.read()) {
            return found;
        }
        let mut values = self.values.write();
        if let Some(found) = known(&values) {
            return found;
        }
        told_apart.fetch_add(1, Relaxed);
        let (text, path) = if told_apart.load(Relaxed) > MAX_VALUES {
            (OTHER.into(), format!("{}_{OTHER}", rule.path))
        } else {
            (text.into(), rule.metric_path(entries))
        };
        let of_value = Arc::new(OfValue { path, counts: Atomics::default() });
        values.insert(text, Arc::clone(&of_value));
        of_value
    }
}

impl RuleEntry {
    /// Returns the entries that this rule matched.
    pub(crate) fn matched<'e, 'v>(&self, entries: &'e [Entry<'v>]) -> &'e [Entry<'v>] {
        &entries[..entries.len().min(self.path_varies.len())]
    }

    /// Returns `key=value/key=value` of the whole path, or only the value of the last entry.
    fn metric_value(&self, entries: &[Entry<'_>]) -> String {
        let matched = self.matched(entries);
        if !self.detailed_metric {
            return matched.last().map_or(String::new(), |(_, value)| shown(value).to_owned());
        }
        matched.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect::<Vec<_>>().join("/")
    }

    /// Returns the path with all values, or with only the value of the last entry.
    fn metric_path(&self, entries: &[Entry<'_>]) -> String {
        let matched = self.matched(entries);
        if self.detailed_metric {
            return matched
                .iter()
                .map(|(key, value)| format!("{key}_{}", shown(value)))
                .collect::<Vec<_>>()
                .join(".");
        }
        let Some((key, value)) = matched.last() else { return self.path.to_string() };
        let before = self.path.rfind(&format!("{key}_")).or_else(|| self.path.len().checked_sub(key.len()));
        format!("{}{key}_{}", &self.path[..before.unwrap_or(0)], shown(value))
    }
}

/// Returns the part of a value that metrics show.
fn shown(value: &str) -> &str {
    &value[..value.floor_char_boundary(VALUE_BYTES)]
}

impl Atomics {
    #[inline]
    fn add(&self, tally: Tally) {
        let Tally { denied, shadow_denied, cost, near } = tally;
        if denied {
            self.denied.fetch_add(1, Relaxed);
            self.over_limit.fetch_add(cost, Relaxed);
        } else if shadow_denied {
            self.shadow_denied.fetch_add(1, Relaxed);
            self.over_limit.fetch_add(cost, Relaxed);
            self.shadow_mode.fetch_add(cost, Relaxed);
        } else {
            self.allowed.fetch_add(1, Relaxed);
            self.allowed_hits.fetch_add(cost, Relaxed);
            if near > 0 {
                self.near_limit.fetch_add(near, Relaxed);
            }
        }
    }

    fn read(&self) -> Counts {
        let (within_limit, over_limit) = (self.allowed_hits.load(Relaxed), self.over_limit.load(Relaxed));
        Counts {
            allowed: self.allowed.load(Relaxed),
            denied: self.denied.load(Relaxed),
            shadow_denied: self.shadow_denied.load(Relaxed),
            total_hits: within_limit.saturating_add(over_limit),
            over_limit,
            near_limit: self.near_limit.load(Relaxed),
            within_limit,
            shadow_mode: self.shadow_mode.load(Relaxed),
        }
    }
}

impl Limiter {
    /// Returns the counts of every rule in force, in the order of the rules.
    pub fn counts(&self) -> Vec<RuleCount> {
        let rules = self.inner.rules.load();
        let mut counts = Vec::new();
        for domain in rules.domains.iter() {
            for rule in &domain.rules {
                let one = |value: Option<String>, path: &str, counters: &Atomics| RuleCount {
                    domain: domain.name.to_string(),
                    rule: rule.id.to_string(),
                    path: path.to_owned(),
                    value,
                    counts: counters.read(),
                };
                counts.push(one(None, &rule.path, &rule.counts.all));
                let values = rule.counts.values.read();
                counts.extend(
                    values.iter().map(|(value, of)| one(Some(value.to_string()), &of.path, &of.counts)),
                );
            }
            counts.extend(self.inner.inline.counts(&domain.name).map(|counts| RuleCount {
                domain: domain.name.to_string(),
                rule: INLINE.to_owned(),
                path: INLINE.to_owned(),
                value: None,
                counts: counts.all.read(),
            }));
        }
        counts
    }

    /// Calls `visit` with the domain, the rule and the counts of every rule in force, without the counts of single
    /// values. Does not allocate, so it can be called often.
    pub fn visit_counts(&self, mut visit: impl FnMut(&str, &str, Counts)) {
        let rules = self.inner.rules.load();
        for domain in rules.domains.iter() {
            for rule in &domain.rules {
                visit(&domain.name, &rule.id, rule.counts.all.read());
            }
            if let Some(counts) = self.inner.inline.counts(&domain.name) {
                visit(&domain.name, INLINE, counts.all.read());
            }
        }
    }

    /// Counts an acquisition, as [`Decision::count`] does for decisions. `request` is the request it was made for.
    pub fn count_acquired(&self, request: &Request<'_>, acquired: &Acquired) {
        match acquired {
            Acquired::Permit(permit) => permit.count(),
            Acquired::Denied(decision) => {
                decision.count(request);
            }
        }
    }
}

impl RuleSet {
    /// Takes over the counters of the previous rules.
    pub(crate) fn go_on_counting(&mut self, before: &Self) {
        for domain in self.domains_mut() {
            let Some((_, old)) = before.domain(&domain.name) else { continue };
            let known: HashMap<(&str, &str), _> =
                old.rules.iter().map(|rule| ((&*rule.id, &*rule.path), &rule.counts)).collect();
            for rule in &mut domain.rules {
                if let Some(counts) = known.get(&(&*rule.id, &*rule.path)) {
                    rule.counts = Arc::clone(counts);
                }
            }
        }
        // Values of rules that no longer exist are not counted against the bound.
        let rules = self.domains.iter().flat_map(|domain| &domain.rules);
        let told_apart = rules.map(|rule| rule.counts.values.read().len()).sum();
        self.values_counted = Arc::new(AtomicUsize::new(told_apart));
    }
}
