//! The identity of one counter, as a 128-bit fingerprint.
//!
//! A key is built from texts: the domain, the rule, and each descriptor value that separates one counter
//! from another. Each text is hashed on its own and the hashes are folded in order, so the boundaries
//! between texts are part of the identity: `["a", "b_c"]` and `["a_b", "c"]` have different keys.
//!
//! Snapshots store these fingerprints. A change to the hash function needs a new snapshot version.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// A secret that makes fingerprints unpredictable for clients, who choose the texts. A store that only this process
/// reads uses a random seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySeed(pub u64);

/// The 128-bit fingerprint that identifies one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Selects where the counter is stored. All limits of one rule and descriptor have the same `home`.
    pub home: u64,
    /// Distinguishes the counters that have the same `home`.
    pub mark: u64,
}

/// Digits of pi, combined by exclusive or with the seed, so that even with a seed of 0 the result differs from the
/// bytes of any text.
const SECRET: u64 = 0x3243_f6a8_885a_308d;
const LENGTH_FACTOR: u64 = 0xa076_1d64_78bd_642f;
const HOME_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const MARK_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

impl KeySeed {
    /// Returns the fingerprint of one text.
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

    /// Returns the fingerprint of a text of at most 16 bytes, given its first and last 8 bytes.
    ///
    /// Both words are combined by exclusive or with a secret before they are multiplied, so without the seed nobody
    /// can find two pairs of words with the same product. The second secret must not be the first plus, or combined
    /// by exclusive or with, a known number: then exchanging the two words would be a collision under every seed. The
    /// same holds for the secrets of two lengths. The highest and lowest bits of a product are less random than its
    /// middle; the second multiplication evens them out.
    #[inline]
    fn words(self, first: u64, last: u64, length: usize) -> Key {
        let secret = self.0 ^ SECRET;
        let of_length = secret.wrapping_mul(LENGTH_FACTOR.wrapping_add(2 * length as u64));
        let product = u128::from(first ^ secret) * u128::from(last ^ of_length);
        let (high, low) = halves(product);
        let (mixed_high, mixed_low) = halves(u128::from(high ^ low) * u128::from(MARK_FACTOR));
        Key { home: high.wrapping_add(mixed_low), mark: mixed_high ^ mixed_low }
    }

    /// Returns the fingerprint of a text of less than 8 bytes or more than 16.
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

    /// Returns the fingerprint of a list of texts. Their order matters.
    pub fn texts<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Key {
        texts.into_iter().fold(self.text(""), |key, text| key.then(self.text(text)))
    }
}

/// Splits a product into its high and low 64 bits.
#[inline]
const fn halves(product: u128) -> (u64, u64) {
    ((product >> 64) as u64, product as u64)
}

impl Key {
    /// The key of an empty list of values.
    pub const NONE: Self = Self { home: 0, mark: 0 };

    /// Returns this key followed by `next`. For a given `self` each half is a bijection of the half in
    /// `next`, so two different successors never give the same key.
    #[inline]
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        Self {
            home: (self.home.rotate_left(25) ^ next.home).wrapping_mul(HOME_FACTOR),
            mark: (self.mark.rotate_left(23) ^ next.mark).wrapping_mul(MARK_FACTOR),
        }
    }

    /// Combines the key of a rule with the key of its descriptor values. The result is shared by all
    /// limits of that rule; [`Key::of_limit`] separates them.
    #[inline]
    #[must_use]
    pub const fn of_values(self, values: Self) -> Self {
        Self { home: self.home ^ values.home, mark: self.mark ^ values.mark }
    }

    /// Returns the key of one limit's counter: the same `home`, and a `mark` that depends on `salt`.
    #[inline]
    #[must_use]
    pub const fn of_limit(self, salt: u64) -> Self {
        Self { home: self.home, mark: self.mark ^ salt }
    }
}
