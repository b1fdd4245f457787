//! The names of the keys and fields that hold counters on a server.

use std::fmt::Write;

use tidegate_core::{Algorithm, Limit, Window};

use super::batch::Counter;
use super::script::Kind;

/// Number of hashes per kind and window on one server, if a call may touch all of them.
const HASHES: u32 = 16;

/// Builds the names of keys.
pub(super) struct Layout<'a> {
    /// The prefix of all key names.
    pub(super) prefix: &'a str,
    /// Whether a call may touch the keys of only one partition, as in a cluster.
    pub(super) by_partition: bool,
}

impl Layout<'_> {
    /// Returns the number in the key of a counter. Each hash that a call touches costs two commands, so where a call
    /// may touch all hashes, there are few.
    pub(super) fn hash(&self, counter: &Counter, kind: Kind) -> u32 {
        if self.by_partition || !kind.is_small() { counter.partition } else { counter.partition % HASHES }
    }

    /// Returns the key of the hash that holds a small counter, or the key of a large counter. Counters of the same
    /// kind and window share hashes, so that an expired counter can be recognized in any of them.
    pub(super) fn key_name(&self, limit: &Limit, counter: &Counter) -> String {
        let kind = Kind::of(limit.algorithm());
        let mut name = format!("{}:{{{}}}:{}", self.prefix, self.hash(counter, kind), kind.letter());
        // Writing to a string cannot fail.
        let _ = match limit.window() {
            Window::Period { us } => write!(name, "{us}"),
            Window::Calendar(calendar) => write!(name, "{}/{}", calendar.unit(), calendar.zone_name()),
        };
        if let Algorithm::SubWindows { buckets } = limit.algorithm() {
            let _ = write!(name, "/{buckets}");
        }
        if !kind.is_small() {
            let _ = write!(name, ":{:016x}{:016x}", counter.key.home, counter.key.mark);
        }
        name
    }
}

/// Returns the field of a small counter in its hash.
pub(super) fn field(counter: &Counter) -> [u8; 16] {
    (u128::from(counter.key.home) << 64 | u128::from(counter.key.mark)).to_be_bytes()
}
