//! The measured algorithms: their rules, and the scripts one would write without Tidegate.

use std::fmt::Write;

/// A limit that no run comes near to.
const PLENTY: u64 = 100_000_000;

/// A measured algorithm.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The entry of requests that are never denied.
    pub(super) generous: &'static str,
    generous_limit: &'static str,
    /// The entry of requests of which all but the first are denied.
    pub(super) strict: &'static str,
    /// A script that enforces the generous limit for one key, with one call for each decision.
    pub(super) script: &'static str,
    /// The arguments of the script besides the key: a unit of time in microseconds, its number, and the cost.
    pub(super) arguments: [u64; 3],
}

/// The measured algorithms. Targets apply to the first.
pub(super) const KINDS: [Kind; 2] = [
    Kind {
        name: "token_bucket",
        generous: "user",
        // Each request counts for a second: a bucket that is full again at once would not exist any more at the next
        // request.
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

/// Returns a rule for each entry. A request that the store does not decide is denied, so that failures are noticed.
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

/// Returns a token bucket for each key and endpoint, for each address and for all: the limits that
/// [`THREE_DESCRIPTORS`](tidegate_load::payload::THREE_DESCRIPTORS) match.
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
