//! The gRPC API of `throttlecrab-server`.

use prost::Message;

use super::{Answer, Decision, Payload, Speaks, write_key};

/// Calls `throttlecrab.RateLimiter/Throttle`. The limit is part of the request.
#[derive(Debug)]
pub struct Throttlecrab {
    request: ThrottleRequest,
}

impl Throttlecrab {
    /// Creates requests of quantity 1 with a limit of `count` per `period_s` seconds and this burst.
    pub fn new(burst: i32, count: i32, period_s: i32) -> Self {
        let request = ThrottleRequest {
            key: String::new(),
            max_burst: burst,
            count_per_period: count,
            period: period_s,
            quantity: 1,
        };
        Self { request }
    }
}

impl Payload for Throttlecrab {
    fn speaks(&self) -> Speaks {
        Speaks::Grpc { path: "/throttlecrab.RateLimiter/Throttle".to_owned() }
    }

    fn request(&mut self, key: u64, out: &mut Vec<u8>) {
        write_key(key, &mut self.request.key);
        // Encoding into a vector does not fail.
        let _ = self.request.encode(out);
    }

    fn judge(&mut self, answer: Answer<'_>) -> Decision {
        match ThrottleResponse::decode(answer.body) {
            Ok(ThrottleResponse { allowed: true }) => Decision::Allowed,
            Ok(ThrottleResponse { allowed: false }) => Decision::Denied,
            Err(error) => Decision::Error(format!("not a valid ThrottleResponse: {error}")),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

#[derive(Clone, PartialEq, Message)]
struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    allowed: bool,
}

#[cfg(test)]
mod tests {
    use super::Throttlecrab;
    use crate::payload::{Answer, Decision, Payload};

    #[test]
    fn the_request_is_what_its_proto_says() {
        let mut out = Vec::new();
        Throttlecrab::new(10, 100, 60).request(1, &mut out);
        assert_eq!(out, b"\x0a\x0duser-00000001\x10\x0a\x18\x64\x20\x3c\x28\x01");
    }

    #[test]
    fn an_absent_field_is_false_and_denies() {
        let mut payload = Throttlecrab::new(1, 1, 1);
        let mut judge = |body: &[u8]| payload.judge(Answer { status: 200, body });
        assert_eq!(judge(b"\x08\x01\x10\x05"), Decision::Allowed);
        assert_eq!(judge(b"\x10\x05"), Decision::Denied);
    }
}
