//! The algorithms that are measured: how a rule asks for them, and the script one would write without us.

use std::fmt::Write;

/// What a limit may take that no run comes near to.
const PLENTY: u64 = 100_000_000;

/// An algorithm.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The entry of requests that are never denied.
    pub(super) generous: &'static str,
    generous_limit: &'static str,
    /// The entry of requests of which all but the first are denied.
    pub(super) strict: &'static str,
    /// The same limit as the generous one for one key, by one call for each decision.
    pub(super) script: &'static str,
    /// What it is given beside the key: a unit of time in microseconds, how much of it, and the cost.
    pub(super) arguments: [u64; 3],
}

/// The first is the one that targets are about.
pub(super) const KINDS: [Kind; 2] = [
    Kind {
        name: "token_bucket",
        generous: "user",
        // Each request counts for a second: a bucket that is full again at once would not be there any
        // more when it is asked for next.
        generous_limit: "requests: 1, per: second, burst",
        strict: "attacker",
        script: include_str!("token_bucket.lua"),
        arguments: [1_000_000, PLENTY, 1],
    },
    Kind {
        name: "sliding_window",
        generous: "visitor",
        generous_limit: "per: minute, requests",
        strict: "intruder",
        script: include_str!("sliding_window.lua"),
        arguments: [60_000_000, PLENTY, 1],
    },
];

/// A rule for each entry. Whatever is not decided by the store is denied, so that it does not go unseen.
pub(super) fn rules() -> String {
    let mut text = String::from("domain: api\ndescriptors:\n");
    for Kind { name, generous, generous_limit, strict, .. } in &KINDS {
        for (entry, limit) in
            [(generous, format!("{generous_limit}: {PLENTY}")), (strict, "requests: 1, per: hour".to_owned())]
        {
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "  - key: {entry}\n    on_store_error: deny\n    limits:\n      - {{ algorithm: {name}, {limit} }}"
            );
        }
    }
    text + &three_rules()
}

/// A token bucket for each key and endpoint, for each address and for all: what
/// [`THREE_DESCRIPTORS`](tidegate_load::payload::THREE_DESCRIPTORS) ask for.
fn three_rules() -> String {
    let Kind { name, generous_limit, .. } = &KINDS[0];
    let rest = |indent: &str| {
        format!(
            "{indent}on_store_error: deny\n{indent}limits:\n{indent}  - {{ algorithm: {name}, {generous_limit}: {PLENTY} }}\n"
        )
    };
    let (below, top) = (rest("        "), rest("    "));
    format!(
        "  - key: api_key\n    descriptors:\n      - key: endpoint\n{below}  - key: remote_address\n{top}  \
         - key: global\n{top}"
    )
}
