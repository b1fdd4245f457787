//! How counters are laid out in the keys of a server.

use std::fmt::Write;

use tidegate_core::{Algorithm, Limit, Window};

use super::batch::Counter;
use super::script::Kind;

/// Hashes of one kind and window on one server, if a call may touch all of them.
const HASHES: u32 = 16;

/// Names the keys of counters.
pub(super) struct Layout<'a> {
    /// What the names of all keys begin with.
    pub(super) prefix: &'a str,
    /// Whether a call may touch keys of one partition only, as in a cluster.
    pub(super) by_partition: bool,
}

impl Layout<'_> {
    /// The number in a counter's key. Each hash that a call touches costs it two commands, so where it may
    /// touch all of them, there are few.
    pub(super) fn hash(&self, counter: &Counter, kind: Kind) -> u32 {
        if self.by_partition || !kind.is_small() { counter.partition } else { counter.partition % HASHES }
    }

    /// The name of the hash that holds a small counter, or of a large counter's own key. Counters of the same
    /// kind and window share hashes, so that a dead counter can be recognized in any of them.
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

/// The field of a small counter in its hash.
pub(super) fn field(counter: &Counter) -> [u8; 16] {
    (u128::from(counter.key.home) << 64 | u128::from(counter.key.mark)).to_be_bytes()
}
