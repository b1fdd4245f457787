//! The identity of one counter, as a 128-bit fingerprint.
//!
//! A key is built from texts: domain, rule and each descriptor value that tells one counter from
//! another. Every text is hashed for itself and folded in order, so that its length is part of the
//! identity and no two lists of texts run together (`["a", "b_c"]` and `["a_b", "c"]` differ).
//!
//! The function is part of the snapshot format: a change to it needs a new snapshot version.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The secret that makes fingerprints unpredictable to whoever chooses the texts. Stores that only
/// this process reads draw it at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySeed(pub u64);

/// 128 bits that stand for one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The half that says where the counter lives; all limits of one rule and descriptor share it.
    pub home: u64,
    /// The half that tells counters of one home apart.
    pub mark: u64,
}

/// Digits of pi: whatever the seed, it is not what texts are made of.
const SECRET: u64 = 0x3243_f6a8_885a_308d;
const LENGTH_FACTOR: u64 = 0xa076_1d64_78bd_642f;
const HOME_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const MARK_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

impl KeySeed {
    /// The fingerprint of one text.
    #[inline]
    pub fn text(self, text: &str) -> Key {
        let bytes = text.as_bytes();
        match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) if bytes.len() <= 16 => {
                self.words(u64::from_le_bytes(*first), u64::from_le_bytes(*last), bytes.len())
            }
            _ => self.short_or_long(bytes),
        }
    }

    /// Of a text of at most 16 bytes, by its first and its last 8.
    ///
    /// Two numbers are multiplied that nobody knows who does not know the seed, so it depends on the seed
    /// what few pairs of words have the same product. The second secret is not the first plus or xor
    /// something known, or exchanging the words would be a collision under any seed; the same goes for
    /// the secrets of two lengths. The ends of a product are worse than its middle; the second
    /// multiplication makes all bits alike.
    #[inline]
    fn words(self, first: u64, last: u64, length: usize) -> Key {
        let secret = self.0 ^ SECRET;
        let of_length = secret.wrapping_mul(LENGTH_FACTOR.wrapping_add(2 * length as u64));
        let product = u128::from(first ^ secret) * u128::from(last ^ of_length);
        let (high, low) = halves(product);
        let (mixed_high, mixed_low) = halves(u128::from(high ^ low) * u128::from(MARK_FACTOR));
        Key { home: high.wrapping_add(mixed_low), mark: mixed_high ^ mixed_low }
    }

    #[inline(never)]
    fn short_or_long(self, bytes: &[u8]) -> Key {
        if bytes.len() < 8 {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            return self.words(u64::from_le_bytes(word), 0, bytes.len());
        }
        let hash = xxh3_128_with_seed(bytes, self.0);
        Key { home: (hash >> 64) as u64, mark: hash as u64 }
    }

    /// The fingerprint of a list of texts, in order.
    pub fn texts<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Key {
        texts.into_iter().fold(self.text(""), |key, text| key.then(self.text(text)))
    }
}

#[inline]
const fn halves(product: u128) -> (u64, u64) {
    ((product >> 64) as u64, product as u64)
}

impl Key {
    /// Of no texts at all.
    pub const NONE: Self = Self { home: 0, mark: 0 };

    /// This key followed by another part. Each half is a bijection of the part, so nothing that
    /// was told apart before is merged.
    #[inline]
    #[must_use]
    pub const fn then(self, part: Self) -> Self {
        Self {
            home: (self.home.rotate_left(25) ^ part.home).wrapping_mul(HOME_FACTOR),
            mark: (self.mark.rotate_left(23) ^ part.mark).wrapping_mul(MARK_FACTOR),
        }
    }

    /// What the counters of a rule with this key have in common that are told apart by `values`.
    #[inline]
    #[must_use]
    pub const fn of_values(self, values: Self) -> Self {
        Self { home: self.home ^ values.home, mark: self.mark ^ values.mark }
    }

    /// The counter of one limit among those that share this home.
    #[inline]
    #[must_use]
    pub const fn of_limit(self, salt: u64) -> Self {
        Self { home: self.home, mark: self.mark ^ salt }
    }
}
