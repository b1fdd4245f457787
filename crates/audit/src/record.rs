//! The records of a trail.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_core::Micros;

use crate::chain::Hash;

/// The longest record. From a longer one, the states before and after the change are left out, so that a
/// reader can hold any line in memory.
pub(crate) const MAX_RECORD_BYTES: usize = 4 << 20;

/// A record of a caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// An administrator changed something.
    Change(Change),
    /// A request was denied.
    Denial(Denial),
}

/// A change that an administrator made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When the change was made.
    #[serde(with = "at")]
    pub at: Micros,
    /// The name of the token or certificate that made the change.
    pub actor: String,
    /// The action, such as `quota.set`.
    pub action: String,
    /// The changed object, such as a tenant or a domain.
    pub object: String,
    /// The state before the change; `None` if the object did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The state after the change; `None` if the object was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The ID of the request that made the change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// The name of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// A denial that was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Denial {
    /// When the request was denied.
    #[serde(with = "at")]
    pub at: Micros,
    /// The domain of the request.
    pub domain: String,
    /// The rule that denied the request.
    pub rule: String,
    /// The name of the limit that denied the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit: String,
    /// The keys and values of the descriptor; only if they are enabled in logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Vec<(String, String)>>,
    /// The number of denials since the previous sampled one; see [`Sampler`](crate::Sampler).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsampled: u64,
    /// The name of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// The end of the trail was damaged when it was opened, and was repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// When the damage was found.
    #[serde(with = "at")]
    pub at: Micros,
    /// The name of the file.
    pub file: String,
    /// The bytes of an unfinished line that were removed.
    pub bytes: u64,
    /// The number of records that had certainly been written but are missing.
    pub records: u64,
    /// What was found.
    pub reason: String,
    /// The name of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// The oldest segments were removed according to the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// When they were removed.
    #[serde(with = "at")]
    pub at: Micros,
    /// The number of segments.
    pub segments: u64,
    /// The number of the newest record removed.
    pub through: u64,
    /// The name of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// The contents of a line: a record of a caller, or of the trail itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// An administrator changed something.
    Change(Change),
    /// A request was denied.
    Denial(Denial),
    /// The end of the trail was repaired.
    Cut(Cut),
    /// Old segments were removed.
    Retired(Retired),
}

/// The number of records that are not in the trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The number of changes.
    pub changes: u64,
    /// The number of sampled denials.
    pub denials: u64,
}

/// A parsed line of a trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the line, from 1.
    pub seq: u64,
    /// The records that are missing before this line.
    #[serde(default, skip_serializing_if = "Lost::is_none")]
    pub missing: Lost,
    /// The contents of the line.
    #[serde(flatten)]
    pub event: Event,
    /// The hash of the line.
    pub hash: Hash,
}

impl From<Change> for Record {
    fn from(change: Change) -> Self {
        Self::Change(change)
    }
}

impl From<Denial> for Record {
    fn from(denial: Denial) -> Self {
        Self::Denial(denial)
    }
}

impl From<Record> for Event {
    fn from(record: Record) -> Self {
        match record {
            Record::Change(change) => Self::Change(change),
            Record::Denial(denial) => Self::Denial(denial),
        }
    }
}

impl Event {
    /// Returns the time of the event.
    pub fn at(&self) -> Micros {
        match self {
            Self::Change(change) => change.at,
            Self::Denial(denial) => denial.at,
            Self::Cut(cut) => cut.at,
            Self::Retired(retired) => retired.at,
        }
    }

    /// Encodes the event as a JSON object on one line.
    pub(crate) fn encode(mut self) -> String {
        let text = encoded(&self);
        if text.len() <= MAX_RECORD_BYTES {
            return text;
        }
        match &mut self {
            Self::Change(change) => {
                change.before = change.before.as_ref().map(left_out);
                change.after = change.after.as_ref().map(left_out);
                for text in
                    [&mut change.actor, &mut change.action, &mut change.object, &mut change.request_id]
                {
                    shorten(text);
                }
            }
            Self::Denial(denial) => {
                denial.descriptor = None;
                for text in [&mut denial.domain, &mut denial.rule, &mut denial.limit] {
                    shorten(text);
                }
            }
            Self::Cut(_) | Self::Retired(_) => {}
        }
        encoded(&self)
    }
}

fn encoded(event: &Event) -> String {
    serde_json::to_string(event).expect("strings, numbers and JSON values can all be written")
}

/// Returns the replacement for a value that is too long: its length and hash, so that it can be compared with
/// another copy.
fn left_out(value: &Value) -> Value {
    let text = value.to_string();
    json!({ "left_out_bytes": text.len(), "sha256": Hash::of(text.as_bytes()) })
}

fn shorten(text: &mut String) {
    let end = text.floor_char_boundary(1024);
    text.truncate(end);
}

impl Lost {
    /// Returns whether no record is missing.
    pub const fn is_none(&self) -> bool {
        self.changes == 0 && self.denials == 0
    }

    /// Returns the number of records of both kinds.
    pub const fn total(&self) -> u64 {
        self.changes.saturating_add(self.denials)
    }
}

impl std::ops::AddAssign for Lost {
    fn add_assign(&mut self, more: Self) {
        self.changes = self.changes.saturating_add(more.changes);
        self.denials = self.denials.saturating_add(more.denials);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Serializes times as RFC 3339 with microseconds: `2026-01-31T12:00:00.000001Z`.
mod at {
    use jiff::Timestamp;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use tidegate_core::Micros;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    pub(super) fn serialize<S: Serializer>(at: &Micros, to: S) -> Result<S::Ok, S::Error> {
        let us = i64::try_from(at.0).unwrap_or(i64::MAX);
        let time = Timestamp::from_microsecond(us).unwrap_or(Timestamp::MAX);
        to.collect_str(&format_args!("{time:.6}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Micros, D::Error> {
        let text = String::deserialize(from)?;
        let time: Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Micros(u64::try_from(time.as_microsecond()).unwrap_or(0)))
    }
}
