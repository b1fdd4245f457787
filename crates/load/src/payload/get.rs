//! The payload for plain GET requests.

use super::{Answer, Decision, Payload, Speaks, by_status, write_key};

/// Sends `GET <path>?<parameter>=<key>`, for servers that limit by a query parameter.
#[derive(Debug)]
pub struct Get {
    before: Vec<u8>,
    after: Vec<u8>,
    key: String,
}

impl Get {
    /// Creates requests to this host and path, with the key in this query parameter.
    pub fn new(host: &str, path: &str, parameter: &str) -> Self {
        Self {
            before: format!("GET {path}?{parameter}=").into_bytes(),
            after: format!(" HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes(),
            key: String::new(),
        }
    }
}

impl Payload for Get {
    fn speaks(&self) -> Speaks {
        Speaks::Http1
    }

    fn request(&mut self, key: u64, out: &mut Vec<u8>) {
        write_key(key, &mut self.key);
        out.extend_from_slice(&self.before);
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(&self.after);
    }

    /// Status 503 also counts as denied: nginx sends it unless `limit_req_status` is set.
    fn judge(&mut self, answer: Answer<'_>) -> Decision {
        if answer.status == 503 { Decision::Denied } else { by_status(answer.status) }
    }
}
