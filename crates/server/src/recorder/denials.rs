//! The last denials of each rule.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tidegate::{Micros, RuleResult, Source};
use tidegate_core::Key;

use super::sample::{Descriptors, Sample, SampledRule};

/// Denials kept of each rule.
pub(crate) const PER_RULE: usize = 50;
/// Rules whose denials are kept; the rule that has denied nothing for longest makes room.
pub(crate) const RULES: usize = 200;

/// A denial, by a rule that is enforced or in shadow.
#[derive(Clone)]
pub(crate) struct RecordedDenial {
    /// Unique in this process, in order.
    pub(crate) number: u64,
    pub(crate) at: Micros,
    pub(crate) domain: Box<str>,
    pub(crate) rule: Box<str>,
    pub(crate) limit: Box<str>,
    pub(crate) limit_text: Box<str>,
    pub(crate) key: Key,
    /// `None` if the rule hides its keys.
    pub(crate) text: Option<Box<str>>,
    pub(crate) tenant: Option<Box<str>>,
    pub(crate) cost: u64,
    pub(crate) source: Source,
    /// [`Duration::MAX`] if the request will never pass.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) shadow: bool,
    pub(crate) front_end: &'static str,
    /// The ID that the client gave its request.
    pub(crate) request_id: Option<Box<str>>,
    /// The whole request, if it was short.
    pub(crate) request: Option<Descriptors>,
}

/// The last denials of each rule.
#[derive(Default)]
pub(super) struct DenialRings {
    rings: HashMap<(Box<str>, Box<str>), VecDeque<RecordedDenial>>,
    next: u64,
}

impl DenialRings {
    /// Adds the denials of a decision. Returns them, newest last.
    pub(super) fn add(&mut self, sample: &Sample) -> Vec<RecordedDenial> {
        let denied = sample.rules.iter().filter(|rule| rule.result != RuleResult::Allowed);
        denied.map(|rule| self.push(sample, rule)).collect()
    }

    fn push(&mut self, sample: &Sample, rule: &SampledRule) -> RecordedDenial {
        self.next += 1;
        let denial = RecordedDenial {
            number: self.next,
            at: sample.at,
            domain: sample.domain.clone(),
            rule: rule.rule.clone(),
            limit: rule.limit.name.clone(),
            limit_text: rule.limit.text.clone(),
            key: rule.key,
            text: rule.text.clone(),
            tenant: rule.tenant.clone(),
            cost: rule.cost,
            source: sample.source,
            retry_after: rule.limit.retry_after,
            shadow: rule.limit.shadow,
            front_end: sample.front_end,
            request_id: sample.request_id.clone(),
            request: sample.request.clone(),
        };
        let place = (denial.domain.clone(), denial.rule.clone());
        if !self.rings.contains_key(&place) && self.rings.len() >= RULES {
            let last = |ring: &VecDeque<RecordedDenial>| ring.back().map(|denial| denial.number);
            let idle = self.rings.iter().min_by_key(|(_, ring)| last(ring)).map(|(place, _)| place.clone());
            idle.map(|place| self.rings.remove(&place));
        }
        let ring = self.rings.entry(place).or_default();
        if ring.len() >= PER_RULE {
            ring.pop_front();
        }
        ring.push_back(denial.clone());
        denial
    }

    /// Returns the denials that `keep` accepts, newest first.
    pub(super) fn list(&self, limit: usize, keep: impl Fn(&RecordedDenial) -> bool) -> Vec<RecordedDenial> {
        let mut found: Vec<_> = self.rings.values().flatten().filter(|denial| keep(denial)).collect();
        found.sort_by_key(|denial| std::cmp::Reverse(denial.number));
        found.truncate(limit);
        found.into_iter().cloned().collect()
    }

    /// Returns the denial with this number, if it is still there.
    pub(super) fn find(&self, number: u64) -> Option<RecordedDenial> {
        self.rings.values().flatten().find(|denial| denial.number == number).cloned()
    }
}
