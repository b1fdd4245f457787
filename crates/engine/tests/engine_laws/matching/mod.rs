//! Which rules a request falls under, and which counter.

mod counters;
mod descriptors;
mod many_keys;
mod order;
mod tree;

use tidegate::{Limiter, Request};

use crate::support::limits_of;

/// Entries of a descriptor.
type Entries = &'static [(&'static str, &'static str)];

/// Checks which rule's limit each descriptor gets; an empty text is none.
fn expect_rules(limiter: &Limiter, table: &[(Entries, &str)]) {
    for (entries, expected) in table {
        let found = limits_of(limiter, &Request::new("d", entries));
        let expected: Vec<String> =
            if expected.is_empty() { Vec::new() } else { vec![format!("{expected} (minute)")] };
        assert_eq!(found, expected, "{entries:?}");
    }
}
