//! Reads `vectors/identity.json`, which specifies the counter that a limit written in code is charged to.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

/// The limiters of one application, and a sequence of requests to them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "vectors/README.md says what each member means")]
pub struct IdentityCase {
    pub name: String,
    pub limiters: Vec<serde_json::Value>,
    pub asks: Vec<IdentityAsk>,
}

/// One request that a limiter decides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "vectors/README.md says what each member means")]
pub struct IdentityAsk {
    pub limiter: usize,
    pub path: String,
    pub client: String,
    pub template: Option<String>,
    pub identifier: Option<String>,
    pub sent: IdentitySent,
    pub counters: Vec<String>,
}

/// What the SDK sends to the service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "vectors/README.md says what each member means")]
pub struct IdentitySent {
    pub entries: Vec<(String, String)>,
    pub limits: Vec<IdentityLimit>,
}

/// A limit as the SDK sends it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "vectors/README.md says what each member means")]
pub struct IdentityLimit {
    pub requests: u64,
    pub per: String,
    pub burst: Option<u64>,
    pub name: Option<String>,
}

/// The units charged to each counter of a case so far.
#[derive(Debug, Default)]
pub struct IdentityTally(HashMap<String, u64>);

impl IdentityTally {
    /// Charges one unit to each counter of the request, and returns what is left of each limit.
    pub fn left_after(&mut self, ask: &IdentityAsk) -> Vec<u64> {
        let limits = ask.sent.limits.iter().zip(&ask.counters);
        let left = limits.map(|(limit, counter)| {
            let used = self.0.entry(counter.clone()).or_default();
            *used += 1;
            limit.burst.unwrap_or(limit.requests) - *used
        });
        left.collect()
    }
}

/// Reads all cases of the file.
///
/// # Panics
/// Panics if the file cannot be read.
pub fn identity_cases() -> Vec<IdentityCase> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<IdentityCase>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/identity.json");
    let text = std::fs::read_to_string(path).expect("the vectors are there");
    let File { cases } = serde_json::from_str(&text).expect("the vectors are JSON");
    assert!(cases.len() > 9, "the vectors have lost cases");
    cases
}
