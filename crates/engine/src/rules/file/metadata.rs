//! The field `metadata`: any YAML mapping, stored as JSON.

use serde_json::{Map, Number};

use super::report::Report;
use super::value::{Value, flag};
use super::words::quoted;
use crate::rules::yaml::Content;

/// Reads a mapping.
pub(super) fn object(value: &Value<'_>, report: &mut Report) -> Map<String, serde_json::Value> {
    let mut object = Map::new();
    for (entry, value) in value.entries(report) {
        if let Some(json) = json(&value, report) {
            object.insert(entry.key.as_ref().to_owned(), json);
        }
    }
    object
}

fn json(value: &Value<'_>, report: &mut Report) -> Option<serde_json::Value> {
    match &value.node.content {
        Content::Mapping(_) => Some(object(value, report).into()),
        Content::List(_) => {
            let items = value.items(report);
            Some(items.filter_map(|item| json(&item, report)).collect())
        }
        Content::Scalar { .. } if value.node.is_null() => Some(serde_json::Value::Null),
        Content::Scalar { text, plain: false } => Some(text.as_ref().into()),
        Content::Scalar { text, plain: true } => {
            let json = plain(text);
            if json.is_none() {
                let message = format!("JSON has no number {}; quote it to keep it as text", quoted(text));
                value.fault(report, message);
            }
            json
        }
    }
}

/// Converts an unquoted scalar to a flag, a number or a text. Returns `None` for a number that JSON cannot
/// represent.
fn plain(text: &str) -> Option<serde_json::Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(flag) = flag(text) {
        Some(flag.into())
    } else if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        None
    } else if !may_be_number(unsigned) {
        Some(text.into())
    } else if let Some(whole) = whole(text) {
        Some(whole.into())
    } else if let Ok(float) = text.parse::<f64>() {
        Number::from_f64(float).map(Into::into)
    } else {
        Some(text.into())
    }
}

/// Returns whether a scalar may be a number. Scalars such as `007` are text, because the versions of YAML
/// disagree on their value and most are identifiers. So are `inf` and `nan`, which Rust would parse.
fn may_be_number(unsigned: &str) -> bool {
    match unsigned.as_bytes() {
        [b'0', second, ..] if second.is_ascii_digit() => false,
        [first, ..] => first.is_ascii_digit() || *first == b'.',
        [] => false,
    }
}

fn whole(text: &str) -> Option<Number> {
    let based = |prefix: &str, radix| {
        text.strip_prefix(prefix).and_then(|digits| u64::from_str_radix(digits, radix).ok())
    };
    if let Some(number) = based("0x", 16).or_else(|| based("0o", 8)) {
        return Some(number.into());
    }
    text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok()
}
