//! The golden vectors: limits, operations with their times, and the expected result of each operation.
//!
//! There is one file per algorithm, beside its code. `crates/core/src/algorithm/README.md` describes the
//! format. The oracles write the files, and every implementation must reproduce them.

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

/// The history of one key under one limit, from its first charge on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// What the vector demonstrates.
    pub name: String,
    /// The limit at the beginning.
    pub limit: LimitSpec,
    /// The operations, in order.
    pub steps: Vec<Step>,
}

/// One operation on the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The time in microseconds since the epoch. Earlier than the previous step's if the clock stepped back.
    pub at_us: u64,
    /// The operation.
    pub op: Op,
    /// The units, if the operation takes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// ID of the slot holder that acquires, renews or releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The new limit of a `relimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitSpec>,
    /// The expected result; absent for a `relimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// An operation on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Charge if it fits, for a caller that cannot hold the request.
    Charge,
    /// Charge if it fits, for a caller that can hold the request.
    Hold,
    /// Charge, whether it fits or not. The result is that of a peek right after.
    Take,
    /// Refund. The result is that of a peek right after.
    Refund,
    /// Charge 0, for a caller that cannot hold the request.
    Peek,
    /// Change the numbers of the limit.
    Relimit,
    /// Acquire slots if they are free.
    Acquire,
    /// Restart the timeout of a holder's slots.
    Renew,
    /// Release a holder's slots.
    Release,
}

/// The expected result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether the charge fits; for a renewal or release, whether the slots were still held.
    pub allowed: bool,
    /// The largest cost that still fits now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// Microseconds until the limit is unused again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_after_us: Option<u64>,
    /// If denied, microseconds until the charge fits; null if it never fits.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub retry_after_us: Option<Option<u64>>,
    /// If the request is to be held, for how many microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<u64>,
}

/// Deserializes a field that is present but may be null.
#[expect(clippy::option_option, reason = "absent means not denied, null means denied for ever")]
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Expect {
    /// Returns the expected result of a renewal or release.
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
