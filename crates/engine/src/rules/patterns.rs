//! Finds the first pattern that matches a value, without trying all of them.

use std::collections::HashMap;

use hashbrown::HashTable;

use super::pattern::Pattern;

/// The patterns of one key in file order, each with the node that it leads to.
///
/// A pattern is indexed by the text before its first `*` or after its last one, whichever is shared by fewer
/// patterns. Only patterns that begin and end with `*` are tried one by one.
#[derive(Default)]
pub(crate) struct Patterns {
    all: Vec<(Pattern, u32)>,
    by_prefix: Affixes,
    by_suffix: Affixes,
    /// The indexes of the patterns that begin and end with `*`.
    unanchored: Vec<u32>,
}

impl Patterns {
    /// Adds a pattern after all others. It is not found before [`Patterns::index`] is called.
    pub(crate) fn push(&mut self, pattern: Pattern, node: u32) {
        self.all.push((pattern, node));
    }

    /// Builds the index of all patterns.
    pub(crate) fn index(&mut self) {
        let (mut prefixes, mut suffixes) = (HashMap::new(), HashMap::new());
        for (pattern, _) in &self.all {
            *prefixes.entry(pattern.prefix()).or_insert(0) += 1;
            *suffixes.entry(pattern.suffix()).or_insert(0) += 1;
        }
        for (number, (pattern, _)) in (0..).zip(&self.all) {
            let (prefix, suffix) = (pattern.prefix(), pattern.suffix());
            let prefix_is_rarer = prefixes[prefix] <= suffixes[suffix];
            if !prefix.is_empty() && (suffix.is_empty() || prefix_is_rarer) {
                self.by_prefix.add(prefix.bytes(), number);
            } else if !suffix.is_empty() {
                self.by_suffix.add(suffix.bytes().rev(), number);
            } else {
                self.unanchored.push(number);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the nodes of all patterns, in file order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.all.iter().map(|(_, node)| *node)
    }

    /// Returns the node of the first pattern in file order that matches the value.
    pub(crate) fn find(&self, value: &str) -> Option<u32> {
        let mut first = self.all.len() as u32;
        let mut look_at = |candidates: &[u32]| {
            let matches = |number: &&u32| **number < first && self.all[**number as usize].0.matches(value);
            first = candidates.iter().find(matches).copied().unwrap_or(first);
        };
        self.by_prefix.each_in(value.bytes(), &mut look_at);
        self.by_suffix.each_in(value.bytes().rev(), &mut look_at);
        look_at(&self.unanchored);
        self.all.get(first as usize).map(|(_, node)| *node)
    }
}

/// Prefixes of values, or reversed suffixes; each with the indexes of its patterns.
#[derive(Default)]
struct Affixes {
    /// The distinct lengths of the texts, ascending.
    lengths: Vec<usize>,
    table: HashTable<Affix>,
}

struct Affix {
    length: usize,
    hash: u64,
    patterns: Vec<u32>,
}

impl Affixes {
    fn add(&mut self, bytes: impl Iterator<Item = u8>, number: u32) {
        let (hash, length) = bytes.fold((0, 0), |(hash, length), byte| (extended(hash, byte), length + 1));
        if let Err(index) = self.lengths.binary_search(&length) {
            self.lengths.insert(index, length);
        }
        // Different texts with the same hash share an entry: each pattern is then matched as a whole anyway.
        let same = |known: &Affix| known.hash == hash && known.length == length;
        if let Some(known) = self.table.find_mut(hash, same) {
            known.patterns.push(number);
        } else {
            let affix = Affix { length, hash, patterns: vec![number] };
            self.table.insert_unique(hash, affix, |known| known.hash);
        }
    }

    /// Calls `found` with the patterns of every text that is a prefix of `bytes`.
    #[inline]
    fn each_in(&self, mut bytes: impl Iterator<Item = u8>, found: &mut impl FnMut(&[u32])) {
        let (mut hash, mut read) = (0, 0);
        for length in &self.lengths {
            for _ in read..*length {
                let Some(byte) = bytes.next() else { return };
                hash = extended(hash, byte);
            }
            read = *length;
            let same = |known: &Affix| known.hash == hash && known.length == *length;
            if let Some(affix) = self.table.find(hash, same) {
                found(&affix.patterns);
            }
        }
    }
}

/// Returns the hash of a text extended by one byte. It needs no secret, because the sender of a value does not choose
/// the texts in the table.
#[inline]
fn extended(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patterns_of(texts: &[String]) -> Patterns {
        let mut patterns = Patterns::default();
        texts.iter().zip(0..).for_each(|(text, node)| patterns.push(Pattern::new(text), node));
        patterns.index();
        patterns
    }

    proptest! {
        #[test]
        fn the_first_pattern_in_file_order_that_matches_is_found(
            texts in prop::collection::vec("[ab*]{0,3}\\*[ab*]{0,3}", 0..12),
            values in prop::collection::vec("[abc]{0,6}", 1..20),
        ) {
            let patterns = patterns_of(&texts);
            for value in values {
                let first = texts.iter().position(|text| Pattern::new(text).matches(&value));
                prop_assert_eq!(patterns.find(&value), first.map(|index| index as u32), "{:?} in {:?}", value, texts);
            }
        }
    }

    #[test]
    fn values_are_found_among_a_thousand_patterns_by_what_tells_these_apart() {
        let texts: Vec<_> = (0..1_000)
            .flat_map(|number| {
                [format!("/v1/{number}/*"), format!("/v2/*/{number}"), format!("*.{number}.test")]
            })
            .collect();
        let patterns = patterns_of(&texts);
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(patterns.find(&text.replace('*', "größer")), Some(index as u32), "{text}");
        }
        assert_eq!(patterns.find("/v3/1/x"), None);
    }
}
