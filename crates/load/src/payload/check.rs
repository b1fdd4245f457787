//! Tidegate's own HTTP API.

use super::{Answer, Decision, Payload, Speaks, by_status, write_key};

/// Asks `POST /v1/check` with `{"domain":"…","descriptor":{"<entry>":"<key>"}}`.
#[derive(Debug)]
pub struct Check {
    /// Up to the value of `content-length`.
    head: Vec<u8>,
    body_start: Vec<u8>,
    key: String,
}

impl Check {
    /// Of this host, in this domain, by the entry of this name.
    pub fn new(host: &str, domain: &str, entry: &str) -> Self {
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: "
        );
        let body_start = format!(r#"{{"domain":{},"descriptor":{{{}:""#, quote(domain), quote(entry));
        Self { head: head.into_bytes(), body_start: body_start.into_bytes(), key: String::new() }
    }
}

impl Payload for Check {
    fn speaks(&self) -> Speaks {
        Speaks::Http1
    }

    fn request(&mut self, key: u64, out: &mut Vec<u8>) {
        // The text of a key needs no escapes.
        const BODY_END: &[u8] = br#""}}"#;
        write_key(key, &mut self.key);
        let length = self.body_start.len() + self.key.len() + BODY_END.len();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(&self.body_start);
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(BODY_END);
    }

    fn judge(&mut self, answer: Answer<'_>) -> Decision {
        by_status(answer.status)
    }
}

/// As a JSON string.
fn quote(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::Check;
    use crate::payload::Payload;

    #[test]
    fn the_body_is_json_of_the_stated_length() {
        let mut out = Vec::new();
        Check::new("localhost", "a\"b", "user").request(7, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body, serde_json::json!({"domain": "a\"b", "descriptor": {"user": "user-00000007"}}));
    }
}
