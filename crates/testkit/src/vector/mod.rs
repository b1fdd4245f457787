//! The golden vectors: limits, what is done to them and when, and what each step must answer.
//!
//! One file per algorithm, beside its code; `crates/core/src/algorithm/README.md` describes the
//! format. The oracles write them, and every implementation must reproduce them.

mod file;
mod identity;
mod limit_spec;
mod recorder;

pub use file::{file_of, format, load};
pub use identity::{IdentityAsk, IdentityCase, IdentityLimit, IdentitySent, IdentityTally, identity_cases};
pub use limit_spec::{CalendarSpec, LimitSpec};
pub use recorder::Recorder;

use serde::{Deserialize, Deserializer, Serialize};
use tidegate_core::{NEVER_US, Outcome, Verdict};

/// One key under one limit, from its first charge on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// What it shows.
    pub name: String,
    /// The limit it begins with.
    pub limit: LimitSpec,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One thing done to the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The time, which may lie before that of the step before.
    pub at_us: u64,
    /// What is done.
    pub op: Op,
    /// Units, where the op takes some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Who acquires, renews or releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The new limit of a `relimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitSpec>,
    /// What must be answered; nothing to a `relimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// What is done to a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Charge if it fits, for one who cannot hold the request.
    Charge,
    /// Charge if it fits, for one who can hold the request.
    Hold,
    /// Charge whether it fits or not. Answers what a peek says after it.
    Take,
    /// Give back. Answers what a peek says after it.
    Refund,
    /// Charge 0, for one who cannot hold the request.
    Peek,
    /// From now on the limit has other numbers.
    Relimit,
    /// Take slots if they are free.
    Acquire,
    /// Start a holder's time-out anew.
    Renew,
    /// Return a holder's slots.
    Release,
}

/// What a step must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether it fits; of a renewal or release, whether the slots were still there.
    pub allowed: bool,
    /// The largest cost that fits now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// Until the limit is untouched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_after_us: Option<u64>,
    /// If denied, until it fits; null for never.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub retry_after_us: Option<Option<u64>>,
    /// If it is to be held, for how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<u64>,
}

/// A field that is there, though it may be null.
#[expect(clippy::option_option, reason = "no field is no denial, and null is a denial for ever")]
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Expect {
    /// What a renewal or release answers.
    pub fn whether(allowed: bool) -> Self {
        Self { allowed, remaining: None, reset_after_us: None, retry_after_us: None, wait_us: None }
    }
}

impl From<Verdict> for Expect {
    fn from(verdict: Verdict) -> Self {
        let (retry_after_us, wait_us) = match verdict.outcome {
            Outcome::Allowed => (None, None),
            Outcome::Held { wait_us } => (None, Some(wait_us)),
            Outcome::Denied { retry_after_us: NEVER_US } => (Some(None), None),
            Outcome::Denied { retry_after_us } => (Some(Some(retry_after_us)), None),
        };
        Self {
            remaining: Some(verdict.remaining),
            reset_after_us: Some(verdict.reset_after_us),
            retry_after_us,
            wait_us,
            ..Self::whether(verdict.allowed())
        }
    }
}
