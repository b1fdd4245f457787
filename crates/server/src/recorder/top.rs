//! The most active and the most denied keys of the last minute, ten minutes and hour.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate::{Micros, RuleResult};
use tidegate_core::Key;
use utoipa::ToSchema;

use super::sample::{Sample, SampledRule};
use super::sketch::{KeyCount, KeyName, Sketch};

/// Which decisions are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// Those that a rule denied.
    #[default]
    Denied,
    /// All.
    Active,
}

/// The time over which is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) enum Span {
    /// A minute, in parts of 10 seconds.
    #[serde(rename = "1m")]
    Minute,
    /// Ten minutes, in parts of a minute.
    #[default]
    #[serde(rename = "10m")]
    TenMinutes,
    /// An hour, in parts of 5 minutes.
    #[serde(rename = "60m")]
    Hour,
}

impl Span {
    pub(crate) const ALL: [Self; 3] = [Self::Minute, Self::TenMinutes, Self::Hour];

    /// The length of a part in seconds, and the number of parts.
    const fn parts(self) -> (u64, usize) {
        match self {
            Self::Minute => (10, 6),
            Self::TenMinutes => (60, 10),
            Self::Hour => (300, 12),
        }
    }
}

impl By {
    pub(crate) const ALL: [Self; 2] = [Self::Denied, Self::Active];
}

/// One key of a list.
#[derive(Clone, Debug)]
pub(super) struct TopKey {
    pub(super) key: Key,
    pub(super) name: Arc<KeyName>,
    pub(super) count: u64,
    /// How far the count may be off.
    pub(super) error: u64,
    pub(super) last: Micros,
}

/// The most active and the most denied keys.
pub(super) struct TopKeys {
    capacity: usize,
    /// Sketches of the parts, oldest first, each with its number since 1970; by span and kind.
    parts: [[VecDeque<(u64, Sketch)>; 2]; 3],
    /// Names in use, shared by all sketches.
    names: HashMap<Key, Arc<KeyName>>,
}

impl TopKeys {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, parts: Default::default(), names: HashMap::new() }
    }

    /// Returns the share of all decisions that a count may be too low by, besides sampling.
    #[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "for people to read")]
    pub(super) fn error_share(&self) -> f64 {
        2.0 / self.capacity as f64
    }

    /// Returns the most bytes that this can take.
    pub(super) fn max_bytes(&self) -> usize {
        let sketches: usize = Span::ALL.iter().map(|span| 2 * (span.parts().1 + 1)).sum();
        sketches * self.capacity * (ENTRY_BYTES + NAME_BYTES)
    }

    pub(super) fn add(&mut self, sample: &Sample) {
        for rule in &sample.rules {
            let name = self.name(&sample.domain, rule);
            for (span, parts) in Span::ALL.iter().zip(&mut self.parts) {
                let [denied, active] = parts;
                let part = part_at(*span, sample.at);
                if rule.result == RuleResult::Denied {
                    current(denied, *span, part).add(
                        rule.key,
                        sample.weight,
                        sample.at,
                        self.capacity,
                        &name,
                    );
                }
                current(active, *span, part).add(rule.key, sample.weight, sample.at, self.capacity, &name);
            }
        }
    }

    fn name(&mut self, domain: &str, rule: &SampledRule) -> Arc<KeyName> {
        let name = self.names.entry(rule.key).or_insert_with(|| {
            Arc::new(KeyName {
                domain: domain.into(),
                rule: rule.rule.clone(),
                text: rule.text.clone(),
                tenant: rule.tenant.clone(),
            })
        });
        // The rule may have begun to hide its keys, or ended to.
        if name.text.is_some() != rule.text.is_some() {
            let (text, tenant) = (rule.text.clone(), rule.tenant.clone());
            *name = Arc::new(KeyName { domain: domain.into(), rule: rule.rule.clone(), text, tenant });
        }
        Arc::clone(name)
    }

    /// Drops expired parts, and names that are no longer used.
    pub(super) fn tidy(&mut self, now: Micros) {
        for (span, kinds) in Span::ALL.iter().zip(&mut self.parts) {
            let oldest = part_at(*span, now).saturating_sub(span.parts().1 as u64);
            for parts in kinds {
                parts.retain(|(number, _)| *number >= oldest);
            }
        }
        self.names.retain(|_, name| Arc::strong_count(name) > 1);
    }

    /// Returns the keys with the most decisions, at most `limit` of those that `keep` accepts.
    pub(super) fn list(
        &self,
        by: By,
        span: Span,
        now: Micros,
        limit: usize,
        keep: impl Fn(&str, &str) -> bool,
    ) -> Vec<TopKey> {
        let mut sums: HashMap<Key, KeyCount> = HashMap::new();
        let oldest = part_at(span, now).saturating_sub(span.parts().1 as u64 - 1);
        for (_, sketch) in self.parts[span as usize][by as usize].iter().filter(|(part, _)| *part >= oldest) {
            for (key, count) in sketch.iter().filter(|(_, count)| keep(&count.name.domain, &count.name.rule))
            {
                let sum = sums.entry(key).or_insert_with(|| KeyCount {
                    // The newest name of the key, which may be hidden by now.
                    name: self.names.get(&key).map_or_else(|| Arc::clone(&count.name), Arc::clone),
                    count: 0,
                    short: 0,
                    variance: 0,
                    last: count.last,
                });
                sum.count += count.count;
                sum.short += count.short;
                sum.variance = sum.variance.saturating_add(count.variance);
                sum.last = sum.last.max(count.last);
            }
        }
        let mut keys: Vec<TopKey> = sums
            .into_iter()
            .map(|(key, KeyCount { name, count, short, variance, last })| TopKey {
                key,
                name,
                count,
                // Two standard deviations: 19 of 20 counts are closer.
                error: short + 2 * variance.isqrt(),
                last,
            })
            .collect();
        keys.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        keys.truncate(limit);
        keys
    }

    /// Returns how many decisions each key of a rule had in each part of the last hour, oldest first.
    pub(super) fn demand(&self, domain: &str, rule: &str, now: Micros) -> Vec<Vec<u64>> {
        let (_, count) = Span::Hour.parts();
        let oldest = (part_at(Span::Hour, now) + 1).saturating_sub(count as u64);
        let mut demand: HashMap<Key, Vec<u64>> = HashMap::new();
        for (part, sketch) in &self.parts[Span::Hour as usize][By::Active as usize] {
            let Some(index) = part.checked_sub(oldest).filter(|index| *index < count as u64) else {
                continue;
            };
            for (key, held) in sketch.iter() {
                if *held.name.domain == *domain && *held.name.rule == *rule {
                    demand.entry(key).or_insert_with(|| vec![0; count])[index as usize] += held.count;
                }
            }
        }
        demand.into_values().collect()
    }
}

/// The seconds of the parts that [`TopKeys::demand`] returns.
pub(super) const DEMAND_PART_S: u64 = Span::Hour.parts().0;

/// Bytes of an entry of a sketch, with the room that hash tables leave free.
const ENTRY_BYTES: usize = 2 * (size_of::<Key>() + size_of::<KeyCount>());
/// Bytes of a name, with the longest text.
const NAME_BYTES: usize = 2 * super::sample::SHOWN_BYTES + size_of::<KeyName>() + 128;

fn part_at(span: Span, at: Micros) -> u64 {
    at.0 / 1_000_000 / span.parts().0
}

/// Returns the sketch of a part. A late sample is counted in the oldest one that there is.
fn current(parts: &mut VecDeque<(u64, Sketch)>, span: Span, part: u64) -> &mut Sketch {
    if parts.back().is_none_or(|(last, _)| *last < part) {
        if parts.len() > span.parts().1 {
            parts.pop_front();
        }
        parts.push_back((part, Sketch::default()));
    }
    let index = parts.iter().position(|(number, _)| *number >= part).unwrap_or(parts.len() - 1);
    &mut parts[index].1
}
