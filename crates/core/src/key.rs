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

const HOME_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const MARK_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

impl KeySeed {
    /// The fingerprint of one text.
    // Not inlined: in a loop the compiler would prepare the seed for every length of text beforehand.
    #[inline(never)]
    pub fn text(self, text: &str) -> Key {
        let hash = xxh3_128_with_seed(text.as_bytes(), self.0);
        Key { home: (hash >> 64) as u64, mark: hash as u64 }
    }

    /// The fingerprint of a list of texts, in order.
    pub fn texts<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Key {
        texts.into_iter().fold(self.text(""), |key, text| key.then(self.text(text)))
    }
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

    /// The counter of one limit among those that share this home.
    #[inline]
    #[must_use]
    pub const fn of_limit(self, salt: u64) -> Self {
        Self { home: self.home, mark: self.mark ^ salt }
    }
}
