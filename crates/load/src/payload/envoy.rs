//! Envoy's rate limit service.

use prost::Message;

use super::{Answer, Decision, Payload, Speaks, write_key};

/// Asks `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` with one descriptor of one
/// entry, whose value is the key.
#[derive(Debug)]
pub struct EnvoyRateLimit {
    request: RateLimitRequest,
}

impl EnvoyRateLimit {
    /// In this domain, by the entry of this name.
    pub fn new(domain: impl Into<String>, entry: impl Into<String>) -> Self {
        let entry = Entry { key: entry.into(), value: String::new() };
        let descriptors = vec![RateLimitDescriptor { entries: vec![entry] }];
        Self { request: RateLimitRequest { domain: domain.into(), descriptors, hits_addend: 0 } }
    }

    /// What each request costs; 0, as nothing said, is 1.
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
        write_key(key, &mut self.request.descriptors[0].entries[0].value);
        // A vector has room.
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

/// The parts of Envoy's messages that are used here; decoding skips the others.
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
    use super::EnvoyRateLimit;
    use crate::payload::{Answer, Decision, Payload};

    #[test]
    fn the_request_is_what_envoy_would_encode() {
        let mut out = Vec::new();
        EnvoyRateLimit::new("api", "user").cost(3).request(42, &mut out);
        assert_eq!(out, b"\x0a\x03api\x12\x17\x0a\x15\x0a\x04user\x12\x0duser-00000042\x18\x03");
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
