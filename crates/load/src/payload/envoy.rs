//! The payload for Envoy's rate limit service.

use prost::Message;

use super::{Answer, Decision, Descriptors, EntryValue, Payload, Speaks, write_key};

/// Calls `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`.
#[derive(Debug)]
pub struct EnvoyRateLimit {
    request: RateLimitRequest,
    /// The entries whose value is the key: the index of the descriptor, and of the entry in it.
    keyed: Vec<(usize, usize)>,
}

impl EnvoyRateLimit {
    /// Creates requests in this domain with one descriptor, whose only entry has this name and the key as its value.
    pub fn new(domain: impl Into<String>, entry: impl Into<String>) -> Self {
        let entry = Entry { key: entry.into(), value: String::new() };
        let descriptors = vec![RateLimitDescriptor { entries: vec![entry] }];
        let request = RateLimitRequest { domain: domain.into(), descriptors, hits_addend: 0 };
        Self { request, keyed: vec![(0, 0)] }
    }

    /// Creates requests in this domain with several descriptors.
    pub fn with_descriptors(domain: impl Into<String>, descriptors: Descriptors) -> Self {
        let (mut filled, mut keyed) = (Vec::new(), Vec::new());
        for (number, entries) in descriptors.iter().enumerate() {
            let entry = |(place, (name, value)): (usize, &(&str, EntryValue))| {
                let value = match value {
                    EntryValue::Fixed(value) => (*value).to_owned(),
                    EntryValue::Key => {
                        keyed.push((number, place));
                        String::new()
                    }
                };
                Entry { key: (*name).to_owned(), value }
            };
            filled.push(RateLimitDescriptor { entries: entries.iter().enumerate().map(entry).collect() });
        }
        let request = RateLimitRequest { domain: domain.into(), descriptors: filled, hits_addend: 0 };
        Self { request, keyed }
    }

    /// Sets the cost of each request in units. 0 means unset, which counts as 1.
    #[must_use]
    pub fn cost(mut self, cost: u32) -> Self {
        self.request.hits_addend = cost;
        self
    }
}

impl Payload for EnvoyRateLimit {
    fn speaks(&self) -> Speaks {
        Speaks::Grpc { path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".to_owned() }
    }

    fn request(&mut self, key: u64, out: &mut Vec<u8>) {
        for (descriptor, entry) in &self.keyed {
            write_key(key, &mut self.request.descriptors[*descriptor].entries[*entry].value);
        }
        // Encoding into a vector does not fail.
        let _ = self.request.encode(out);
    }

    fn judge(&mut self, answer: Answer<'_>) -> Decision {
        match RateLimitResponse::decode(answer.body) {
            Ok(RateLimitResponse { overall_code: 1 }) => Decision::Allowed,
            Ok(RateLimitResponse { overall_code: 2 }) => Decision::Denied,
            Ok(RateLimitResponse { overall_code }) => {
                Decision::Error(format!("overall_code is {overall_code}, neither OK nor OVER_LIMIT"))
            }
            Err(error) => Decision::Error(format!("no RateLimitResponse: {error}")),
        }
    }
}

/// The used parts of Envoy's messages; decoding skips the others.
#[derive(Clone, PartialEq, Message)]
struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::{EnvoyRateLimit, RateLimitRequest};
    use crate::payload::{Answer, Decision, Payload, THREE_DESCRIPTORS};

    #[test]
    fn the_request_is_what_envoy_would_encode() {
        let mut out = Vec::new();
        EnvoyRateLimit::new("api", "user").cost(3).request(42, &mut out);
        assert_eq!(out, b"\x0a\x03api\x12\x17\x0a\x15\x0a\x04user\x12\x0duser-00000042\x18\x03");
    }

    #[test]
    fn several_descriptors_have_the_key_where_it_is_wanted() {
        let mut payload = EnvoyRateLimit::with_descriptors("api", THREE_DESCRIPTORS);
        let mut out = Vec::new();
        payload.request(1, &mut out);
        out.clear();
        payload.request(42, &mut out);
        let request = RateLimitRequest::decode(&*out).unwrap();
        let values = request.descriptors.iter().map(|descriptor| {
            descriptor
                .entries
                .iter()
                .map(|entry| format!("{}={}", entry.key, entry.value))
                .collect::<Vec<_>>()
        });
        assert_eq!(
            values.collect::<Vec<_>>(),
            [
                vec!["api_key=user-00000042", "endpoint=GET /v1/items"],
                vec!["remote_address=user-00000042"],
                vec!["global=all"],
            ]
        );
    }

    #[test]
    fn the_overall_code_decides() {
        let mut payload = EnvoyRateLimit::new("api", "user");
        let mut judge = |body: &[u8]| payload.judge(Answer { status: 200, body });
        assert_eq!(judge(b"\x08\x01"), Decision::Allowed);
        assert_eq!(judge(b"\x08\x02\x12\x02\x08\x02"), Decision::Denied);
        assert!(matches!(judge(b""), Decision::Error(_)));
        assert!(matches!(judge(b"\xff"), Decision::Error(_)));
    }
}
