//! A custom body for denials, in place of the problem document.

use http::HeaderValue;
use thiserror::Error;
use tidegate::{Decision, Request};

use crate::policy::{window_s, write_name};
use crate::retry::retry_after_s;

/// A custom body for denials. In its text, `{retry_after}`, `{limit}`, `{window}` and `{policy}` are replaced by the
/// values of the decision.
///
/// ```
/// use tidegate_middleware::DenialBody;
///
/// let body = DenialBody::new(r#"{"error": "slow down", "seconds": {retry_after}}"#, "application/json")?;
/// assert!(DenialBody::new("retry in {seconds} s", "text/plain").is_err());
/// # Ok::<(), tidegate_middleware::DenialBodyError>(())
/// ```
#[derive(Debug)]
pub struct DenialBody {
    parts: Vec<Part>,
    content_type: HeaderValue,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Value(Placeholder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    RetryAfter,
    Limit,
    Window,
    Policy,
}

/// Reasons a text cannot be used as the body of denials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DenialBodyError {
    /// The text has an unknown placeholder.
    #[error("{{{0}}} is not a placeholder; use {{retry_after}}, {{limit}}, {{window}} or {{policy}}")]
    Placeholder(String),
    /// The text is not valid JSON, although its content type is JSON.
    #[error("it is not valid JSON ({reason}), but the content type is {content_type}")]
    Json {
        /// The content type as given.
        content_type: String,
        /// What is wrong with the JSON.
        reason: String,
    },
    /// The content type is invalid.
    #[error("{0:?} is not a content type; write one such as text/plain; charset=utf-8")]
    ContentType(String),
}

const PLACEHOLDERS: [(&str, Placeholder); 4] = [
    ("retry_after", Placeholder::RetryAfter),
    ("limit", Placeholder::Limit),
    ("window", Placeholder::Window),
    ("policy", Placeholder::Policy),
];

/// Replaces a missing number.
const NONE: &[u8] = b"null";

impl DenialBody {
    /// Parses the text of a body.
    ///
    /// # Errors
    /// Returns an error if the text has an unknown placeholder or is not valid JSON for a JSON content type, or if
    /// the content type is invalid.
    pub fn new(text: &str, content_type: &str) -> Result<Self, DenialBodyError> {
        let no_type = || DenialBodyError::ContentType(content_type.to_owned());
        let header = HeaderValue::from_str(content_type).map_err(|_| no_type())?;
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let named = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        if !content_type.is_ascii()
            || !essence.split_once('/').is_some_and(|(one, two)| named(one) && named(two))
        {
            return Err(no_type());
        }
        let body = Self { parts: parts(text)?, content_type: header };
        let essence = essence.to_ascii_lowercase();
        if essence == "application/json" || essence.ends_with("+json") {
            body.expect_json(content_type)?;
        }
        Ok(body)
    }

    /// Returns the content type as a header value.
    pub fn content_type(&self) -> &str {
        // It was built from a string, so it is always valid text.
        self.content_type.to_str().unwrap_or_default()
    }

    pub(crate) fn write(&self, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
        let by = decision.decided_by();
        self.write_with(out, |placeholder, out| match (placeholder, &by) {
            (Placeholder::RetryAfter, _) => number(retry_after_s(request, decision), out),
            (Placeholder::Limit, by) => number(by.as_ref().map(|by| by.limit.requests()), out),
            (Placeholder::Window, by) => number(by.as_ref().and_then(|by| window_s(by.limit)), out),
            (Placeholder::Policy, Some(by)) => {
                let mut name = String::new();
                write_name(by, 1, &mut name);
                escape(&name, out);
            }
            (Placeholder::Policy, None) => {}
        });
    }

    fn write_with(&self, out: &mut Vec<u8>, mut value: impl FnMut(Placeholder, &mut Vec<u8>)) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Value(placeholder) => value(*placeholder, out),
            }
        }
    }

    /// Checks that the body is valid JSON, both with numbers and with `null`, as for a request that can never pass.
    fn expect_json(&self, content_type: &str) -> Result<(), DenialBodyError> {
        for number in [&b"1"[..], NONE] {
            let mut text = Vec::new();
            self.write_with(&mut text, |placeholder, out| {
                let policy = placeholder == Placeholder::Policy;
                out.extend_from_slice(if policy { b"rule:limit" } else { number });
            });
            if let Err(error) = serde_json::from_slice::<serde_json::Value>(&text) {
                let (content_type, reason) = (content_type.to_owned(), error.to_string());
                return Err(DenialBodyError::Json { content_type, reason });
            }
        }
        Ok(())
    }
}

/// Splits a text at its placeholders. A brace begins a placeholder only if a word and a closing brace follow, because
/// JSON and style sheets contain other braces.
fn parts(text: &str) -> Result<Vec<Part>, DenialBodyError> {
    let mut parts = Vec::new();
    let (mut rest, mut plain) = (text, String::new());
    while let Some(at) = rest.find('{') {
        let (before, braced) = rest.split_at(at);
        plain.push_str(before);
        let word = braced[1..].split_once('}').map(|(word, _)| word).filter(|word| is_word(word));
        let Some(word) = word else {
            plain.push('{');
            rest = &braced[1..];
            continue;
        };
        let known = PLACEHOLDERS.iter().find(|(name, _)| *name == word);
        let (_, placeholder) = known.ok_or_else(|| DenialBodyError::Placeholder(word.to_owned()))?;
        parts.push(Part::Text(std::mem::take(&mut plain)));
        parts.push(Part::Value(*placeholder));
        rest = &braced[word.len() + 2..];
    }
    plain.push_str(rest);
    parts.push(Part::Text(plain));
    Ok(parts)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn number(number: Option<u64>, out: &mut Vec<u8>) {
    match number {
        Some(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        None => out.extend_from_slice(NONE),
    }
}

/// Appends a policy name. It contains nothing that JSON would escape. Characters that are special in markup are
/// percent-encoded, as others already are in the name.
fn escape(name: &str, out: &mut Vec<u8>) {
    for byte in name.bytes() {
        match byte {
            b'<' => out.extend_from_slice(b"%3C"),
            b'>' => out.extend_from_slice(b"%3E"),
            b'&' => out.extend_from_slice(b"%26"),
            b'\'' => out.extend_from_slice(b"%27"),
            other => out.push(other),
        }
    }
}
