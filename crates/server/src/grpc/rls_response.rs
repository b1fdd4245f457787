//! Writes a `RateLimitResponse`.

use std::time::Duration;

use serde_json::{Map, Value};
use tidegate::{Calendar, CalendarUnit, Window};

/// `RateLimitResponse.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request is within its limits.
    Ok = 1,
    /// The request is over a limit.
    OverLimit = 2,
}

/// The status of one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    /// Whether the descriptor is within its limits.
    pub code: Code,
    /// The most restrictive limit of the descriptor, if it has one.
    pub limit: Option<CurrentLimit<'a>>,
    /// Units left of the limit.
    pub remaining: u32,
}

/// A limit in Envoy's terms.
#[derive(Clone, Copy, Debug)]
pub struct CurrentLimit<'a> {
    /// Requests per unit.
    pub requests_per_unit: u32,
    /// The number of the unit; 0 if Envoy has none for the window.
    pub unit: u8,
    /// The name of the limit in the rules; may be empty.
    pub name: &'a str,
    /// Time until the limit is unused again; for a limit that denies, until the same request could pass.
    pub duration_until_reset: Duration,
}

/// The longest `google.protobuf.Duration`: about 10,000 years.
const MAX_DURATION_SECONDS: u64 = 315_576_000_000;

/// Seconds of each unit, indexed by its number in the protocol.
const UNIT_SECONDS: [u64; 8] = [0, 1, 60, 3_600, 86_400, 30 * 86_400, 365 * 86_400, 7 * 86_400];

/// Returns the number of the unit with this window, or 0 if there is none.
pub fn unit_of(window: &Window) -> u8 {
    match window {
        Window::Period { us } => {
            let same = |seconds: &u64| seconds.checked_mul(1_000_000) == Some(*us);
            UNIT_SECONDS.iter().skip(1).position(same).map_or(0, |index| index as u8 + 1)
        }
        Window::Calendar(calendar) => unit_of_calendar(calendar),
    }
}

fn unit_of_calendar(calendar: &Calendar) -> u8 {
    match calendar.unit() {
        CalendarUnit::Day => 4,
        CalendarUnit::Month => 5,
        CalendarUnit::Year => 6,
        CalendarUnit::Week => 7,
    }
}

/// Returns the window of a unit; `None` for UNKNOWN and for invalid numbers.
pub fn window_of(unit: i32) -> Option<Window> {
    let seconds = UNIT_SECONDS.get(usize::try_from(unit).ok()?)?;
    (*seconds > 0).then(|| Window::seconds(*seconds))
}

/// Appends the overall code.
pub fn overall(out: &mut Vec<u8>, code: Code) {
    out.extend_from_slice(&[0x08, code as u8]);
}

/// Appends the status of the next descriptor.
pub fn status(out: &mut Vec<u8>, status: &Status<'_>) {
    message(out, 2, |out| {
        out.extend_from_slice(&[0x08, status.code as u8]);
        if let Some(limit) = &status.limit {
            message(out, 2, |out| {
                number(out, 1, u64::from(limit.requests_per_unit));
                number(out, 2, u64::from(limit.unit));
                text(out, 3, limit.name);
            });
        }
        number(out, 3, u64::from(status.remaining));
        if let Some(limit) = &status.limit {
            // Whole seconds, as in envoyproxy/ratelimit, rounded up so that the client never retries too early.
            let left = limit.duration_until_reset;
            let seconds = left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0));
            let seconds = seconds.min(MAX_DURATION_SECONDS);
            message(out, 4, |out| number(out, 1, seconds));
        }
    });
}

/// Appends a header for Envoy to add to the response.
pub fn response_header(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, 3, |out| {
        text(out, 1, name);
        text(out, 2, value);
    });
}

/// Appends the body for Envoy to send with a denial.
pub fn raw_body(out: &mut Vec<u8>, body: &[u8]) {
    bytes(out, 5, body);
}

/// Appends the dynamic metadata: a struct of strings, and the metadata of the rule if it has any.
pub fn metadata(out: &mut Vec<u8>, fields: &[(&str, &str)], of_rule: Option<&Map<String, Value>>) {
    message(out, 6, |out| {
        for (name, value) in fields {
            // An empty string is written too: in a `oneof`, presence counts.
            field(out, name, |out| bytes(out, 3, value.as_bytes()));
        }
        if let Some(of_rule) = of_rule {
            field(out, "metadata", |out| message(out, 5, |out| object(out, of_rule)));
        }
    });
}

/// Appends the fields of a `google.protobuf.Struct`.
fn object(out: &mut Vec<u8>, object: &Map<String, Value>) {
    for (name, of_field) in object {
        field(out, name, |out| value(out, of_field));
    }
}

/// Appends a field of a `google.protobuf.Struct`.
fn field(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    message(out, 1, |out| {
        text(out, 1, name);
        message(out, 2, write);
    });
}

/// Appends the content of a `google.protobuf.Value`.
fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(&[0x08, 0]),
        Value::Number(number) => {
            out.push(2 << 3 | 1);
            // Numbers in a `Struct` are doubles, to which every JSON number can be converted.
            out.extend_from_slice(&number.as_f64().unwrap_or(f64::NAN).to_le_bytes());
        }
        Value::String(text) => bytes(out, 3, text.as_bytes()),
        Value::Bool(it) => out.extend_from_slice(&[4 << 3, u8::from(*it)]),
        Value::Object(fields) => message(out, 5, |out| object(out, fields)),
        Value::Array(values) => message(out, 6, |out| {
            for element in values {
                message(out, 1, |out| self::value(out, element));
            }
        }),
    }
}

/// Appends a submessage. Its length is filled in afterwards: nearly all submessages are short.
fn message(out: &mut Vec<u8>, field: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[field << 3 | 2, 0]);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(5);
    varint(&mut prefix, length as u64);
    out.splice(start - 1..start, prefix);
}

/// Appends a number, unless it is 0.
fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        out.push(field << 3);
        varint(out, value);
    }
}

/// Appends a string, unless it is empty.
fn text(out: &mut Vec<u8>, field: u8, text: &str) {
    if !text.is_empty() {
        bytes(out, field, text.as_bytes());
    }
}

fn bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
