//! The payload for Tidegate's own HTTP API.

use super::{Answer, Decision, Descriptors, EntryValue, Payload, Speaks, by_status, write_key};

/// Calls `POST /v1/check` with `{"domain":"…","descriptor":{"<entry>":"<key>"}}`, or with several descriptors.
#[derive(Debug)]
pub struct Check {
    /// The head of the request, up to the value of `content-length`.
    head: Vec<u8>,
    /// The parts of the body. The key is inserted between each part and the next.
    body: Vec<Vec<u8>>,
    key: String,
}

impl Check {
    /// Creates requests to this host, in this domain, with one descriptor whose only entry has this name.
    pub fn new(host: &str, domain: &str, entry: &str) -> Self {
        let start = format!(r#"{{"domain":{},"descriptor":{{{}:""#, quote(domain), quote(entry));
        Self::with_body(host, [start, r#""}}"#.to_owned()].map(String::into_bytes).to_vec())
    }

    /// Creates requests to this host, in this domain, with several descriptors.
    pub fn with_descriptors(host: &str, domain: &str, descriptors: Descriptors) -> Self {
        // This byte occurs in no key and in no JSON.
        const KEY: &str = "\u{0}";
        let entry = |(name, value): &(&str, EntryValue)| {
            let value = if let EntryValue::Fixed(value) = value {
                quote(value).to_string()
            } else {
                format!("\"{KEY}\"")
            };
            format!(r#"{{"key":{},"value":{value}}}"#, quote(name))
        };
        let descriptor = |entries: &&[(&str, EntryValue)]| {
            format!(r#"{{"entries":[{}]}}"#, entries.iter().map(entry).collect::<Vec<_>>().join(","))
        };
        let descriptors = descriptors.iter().map(descriptor).collect::<Vec<_>>().join(",");
        let body = format!(r#"{{"domain":{},"descriptors":[{descriptors}]}}"#, quote(domain));
        Self::with_body(host, body.split(KEY).map(|part| part.as_bytes().to_vec()).collect())
    }

    fn with_body(host: &str, body: Vec<Vec<u8>>) -> Self {
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: "
        );
        Self { head: head.into_bytes(), body, key: String::new() }
    }
}

impl Payload for Check {
    fn speaks(&self) -> Speaks {
        Speaks::Http1
    }

    fn request(&mut self, key: u64, out: &mut Vec<u8>) {
        // The text of a key needs no escaping.
        write_key(key, &mut self.key);
        let length = self.body.iter().map(Vec::len).sum::<usize>() + self.key.len() * (self.body.len() - 1);
        out.extend_from_slice(&self.head);
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        for (number, part) in self.body.iter().enumerate() {
            if number > 0 {
                out.extend_from_slice(self.key.as_bytes());
            }
            out.extend_from_slice(part);
        }
    }

    fn judge(&mut self, answer: Answer<'_>) -> Decision {
        by_status(answer.status)
    }
}

/// Returns the text as a JSON string.
fn quote(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Check;
    use crate::payload::{Payload, THREE_DESCRIPTORS};

    fn body_of(mut check: Check) -> Value {
        let mut out = Vec::new();
        check.request(7, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn the_body_is_json_of_the_stated_length() {
        let body = body_of(Check::new("localhost", "a\"b", "user"));
        assert_eq!(body, json!({"domain": "a\"b", "descriptor": {"user": "user-00000007"}}));
        let entry = |key: &str, value: &str| json!({"key": key, "value": value});
        let (key, endpoint) = (entry("api_key", "user-00000007"), entry("endpoint", "GET /v1/items"));
        let (address, all) = (entry("remote_address", "user-00000007"), entry("global", "all"));
        assert_eq!(
            body_of(Check::with_descriptors("localhost", "api", THREE_DESCRIPTORS)),
            json!({
                "domain": "api",
                "descriptors": [{"entries": [key, endpoint]}, {"entries": [address]}, {"entries": [all]}],
            })
        );
    }
}
