//! The most frequent keys of a stream, in fixed memory.
//!
//! This is the frequent items sketch (Misra-Gries with purges of the median, as in Apache `DataSketches`): counts of at
//! most [`Sketch::capacity`] keys. When there is a key too many, the median of all counts is subtracted from each, and
//! keys without a count left go. A count is therefore too low by at most what was subtracted in all, which is at most
//! `2 / capacity` of the whole stream, and no key above that is missing. Ours is of our own making because its entries
//! carry the name of the key, when it came last and the variance of its samples, and entries that go must free those.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate::Micros;
use tidegate_core::Key;

/// The names of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyName {
    pub(super) domain: Box<str>,
    pub(super) rule: Box<str>,
    /// The key as text; `None` if the rule hides its keys.
    pub(super) text: Option<Box<str>>,
    pub(super) tenant: Option<Box<str>>,
}

/// The count of one key.
#[derive(Clone)]
pub(super) struct KeyCount {
    pub(super) name: Arc<KeyName>,
    /// Decisions counted.
    pub(super) count: u64,
    /// Decisions that the count may be too low by, because of purges.
    pub(super) short: u64,
    /// The variance of the count, because of sampling.
    pub(super) variance: u64,
    pub(super) last: Micros,
}

/// The most frequent keys.
#[derive(Default)]
pub(super) struct Sketch {
    counts: HashMap<Key, KeyCount>,
    /// The sum that purges have subtracted from every count.
    subtracted: u64,
}

impl Sketch {
    /// Adds decisions of a key. There are at most `capacity` keys afterwards.
    pub(super) fn add(&mut self, key: Key, weight: u32, at: Micros, capacity: usize, name: &Arc<KeyName>) {
        let weight = u64::from(weight);
        // A sample of weight w was taken with probability 1/w.
        let variance = weight * (weight - weight.min(1));
        let short = self.subtracted;
        let entry = self.counts.entry(key).or_insert_with(|| KeyCount {
            name: Arc::clone(name),
            count: 0,
            short,
            variance: 0,
            last: at,
        });
        if !Arc::ptr_eq(&entry.name, name) {
            entry.name = Arc::clone(name);
        }
        entry.count += weight;
        entry.variance = entry.variance.saturating_add(variance);
        entry.last = entry.last.max(at);
        if self.counts.len() > capacity {
            self.purge();
        }
    }

    /// Returns every key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &KeyCount)> {
        self.counts.iter().map(|(key, count)| (*key, count))
    }

    fn purge(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().map(|count| count.count).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.subtracted += median;
        self.counts.retain(|_, count| {
            count.count = count.count.saturating_sub(median);
            count.short += median;
            count.count > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Arc<KeyName> {
        Arc::new(KeyName { domain: "d".into(), rule: "r".into(), text: None, tenant: None })
    }

    #[test]
    fn no_frequent_key_is_missing_and_no_count_is_off_by_more_than_is_stated() {
        const CAPACITY: usize = 64;
        let (mut sketch, name, mut exact) = (Sketch::default(), name(), HashMap::<u64, u64>::new());
        let mut word = 1_u64;
        let mut total = 0;
        for _ in 0..200_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Skewed: few keys come often, very many come once.
            let key = (word >> 33) >> ((word >> 20) % 31);
            *exact.entry(key).or_default() += 1;
            total += 1;
            sketch.add(Key { home: key, mark: key }, 1, Micros(1), CAPACITY, &name);
        }
        assert!(sketch.counts.len() <= CAPACITY);
        let most_off = 2 * total / CAPACITY as u64;
        for (key, count) in &exact {
            match sketch.counts.get(&Key { home: *key, mark: *key }) {
                Some(found) => {
                    assert!(found.count <= *count && *count <= found.count + found.short);
                    assert!(found.short <= most_off);
                }
                None => assert!(*count <= most_off, "a key with {count} of {total} is missing"),
            }
        }
    }
}
