//! What is written down.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_core::Micros;

use crate::chain::Hash;

/// A longer record goes without what was there before and after, so that no line is longer than a
/// reader can hold.
pub(crate) const MAX_RECORD_BYTES: usize = 4 << 20;

/// What a caller records.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Somebody changed something.
    Change(Change),
    /// A request was denied.
    Denial(Denial),
}

/// A change that an administrator made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    #[serde(with = "at")]
    pub at: Micros,
    /// Who: the name of a token or of a certificate.
    pub actor: String,
    /// What was done, such as `quota.set`.
    pub action: String,
    /// To what, such as a tenant or a domain.
    pub object: String,
    /// What was there before; none if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What is there now; none if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Which request did it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Where.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// A denial that was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Denial {
    /// When.
    #[serde(with = "at")]
    pub at: Micros,
    /// Domain of the request.
    pub domain: String,
    /// The rule that decided.
    pub rule: String,
    /// The name of its limit that decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit: String,
    /// The entries of the descriptor, keys and values: only where somebody asked for them in logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Vec<(String, String)>>,
    /// Denials since the one sampled before that were not; see [`Sampler`](crate::Sampler).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsampled: u64,
    /// Where.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// The end of the trail was not as it was left; what could not be a record was taken away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// When it was noticed.
    #[serde(with = "at")]
    pub at: Micros,
    /// The file.
    pub file: String,
    /// Bytes of an unfinished line that were taken away.
    pub bytes: u64,
    /// Records that had been written for certain and are not there.
    pub records: u64,
    /// What was found.
    pub reason: String,
    /// Where.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// The oldest segments were removed, as the settings ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// When.
    #[serde(with = "at")]
    pub at: Micros,
    /// How many.
    pub segments: u64,
    /// The newest record that went.
    pub through: u64,
    /// Where.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// What a line of a trail tells: a record of a caller, or of the trail itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// Somebody changed something.
    Change(Change),
    /// A request was denied.
    Denial(Denial),
    /// The end of the trail was mended.
    Cut(Cut),
    /// Old segments were removed.
    Retired(Retired),
}

/// Records that are not in the trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Changes.
    pub changes: u64,
    /// Denials that had been sampled.
    pub denials: u64,
}

/// A line of a trail as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the line: 1, 2, and so on.
    pub seq: u64,
    /// What is missing before it.
    #[serde(default, skip_serializing_if = "Lost::is_none")]
    pub missing: Lost,
    /// What it tells.
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
    /// When it was.
    pub fn at(&self) -> Micros {
        match self {
            Self::Change(change) => change.at,
            Self::Denial(denial) => denial.at,
            Self::Cut(cut) => cut.at,
            Self::Retired(retired) => retired.at,
        }
    }

    /// As a JSON object in one line.
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

/// What stands for a value that is too long: enough to tell whether another copy is the same.
fn left_out(value: &Value) -> Value {
    let text = value.to_string();
    json!({ "left_out_bytes": text.len(), "sha256": Hash::of(text.as_bytes()) })
}

fn shorten(text: &mut String) {
    let end = text.floor_char_boundary(1024);
    text.truncate(end);
}

impl Lost {
    /// Whether nothing is.
    pub const fn is_none(&self) -> bool {
        self.changes == 0 && self.denials == 0
    }

    /// Of either kind.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Times as people read them, to the microsecond: `2026-01-31T12:00:00.000001Z`.
mod at {
    use jiff::Timestamp;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use tidegate_core::Micros;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
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
