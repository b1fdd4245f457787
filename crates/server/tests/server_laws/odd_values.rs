//! Values that clients of a proxy can send to make a call fail: they are decided, in a canonical form.

use prost::Message as _;
use tonic::Code as GrpcCode;

use crate::bad_input::{raw_call, raw_call_of};
use crate::support::clients::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::support::clients::envoy::service::ratelimit::v3::rate_limit_response::Code;
use crate::support::clients::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::support::grpc::{Client, descriptor, with_hits, with_limit};
use crate::support::service::{Service, Setup, get, post, service};

const RULES: &str = "
domain: api
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: all, rate_limit: { unit: day, requests_per_unit: 1000 } }
  - { key: job, concurrency: { max: 1, timeout: 1h } }
";

/// Stands in a text for a byte that no text has.
const MARK: &str = "\u{1}";

/// A message with its prefix, in which each mark is replaced by `byte`.
fn framed(message: &impl prost::Message, byte: u8) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    for mark in bytes.iter_mut().filter(|found| **found == MARK.as_bytes()[0]) {
        *mark = byte;
    }
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat()
}

fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    // No length in it is the mark.
    RateLimitRequest { domain: "api".to_owned(), descriptors, hits_addend: 0 }
}

fn answered(service: &Service, body: &[u8]) -> RateLimitResponse {
    let (status, message, body) = raw_call(service.grpc, body);
    assert_eq!(status, "0", "{message}");
    RateLimitResponse::decode(&body[5..]).expect("a response")
}

fn canonicalized(service: &Service) -> u64 {
    let metrics = get(service.admin, "/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("ratelimit_canonicalized_requests_total "));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
}

/// How many of six calls pass.
fn passes(service: &Service, body: &[u8]) -> usize {
    (0..6).filter(|_| answered(service, body).overall_code() == Code::Ok).count()
}

#[test]
fn values_of_any_bytes_are_counted_each_by_itself() {
    let service = service(RULES);
    let me = framed(&request(vec![descriptor(&[("user", &format!("me{MARK}"))])]), 0xff);
    assert_eq!(passes(&service, &me), 3);
    for byte in [0xfe, 0x00, 0x7f, b'\n'] {
        let other = framed(&request(vec![descriptor(&[("user", &format!("me{MARK}"))])]), byte);
        assert_eq!(passes(&service, &other), 3, "{byte:#x}");
    }
    assert_eq!(canonicalized(&service), 30);
    // The canonical form is a text like any other.
    assert_eq!(Client::new(&service).passes("api", "user", "me%FF", 1), 0);
    assert_eq!(service.check("api", r#"{"user":"me%FF"}"#).status, 429);
    let json = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"me\u0000"}]}]}"#;
    assert_eq!(post(service.http, "/json", json).status, 429);
}

#[test]
fn long_values_are_counted_each_by_itself() {
    let service = service(RULES);
    let mut client = Client::new(&service);
    let long = |last: &str| format!("{}{last}", "x".repeat(70_000));
    assert_eq!(client.passes("api", "user", &long("a"), 6), 3);
    assert_eq!(client.passes("api", "user", &long("b"), 6), 3);
    assert_eq!(canonicalized(&service), 12);
}

#[test]
fn what_is_beyond_a_bound_does_not_keep_the_rest_from_being_decided() {
    let service = Setup::rules(RULES).with("bounds.message_bytes", "2MiB").start();
    let mut client = Client::new(&service);
    let ann = || descriptor(&[("user", "ann")]);
    let all = || descriptor(&[("all", "1")]);
    let deep = RateLimitDescriptor { entries: vec![all().entries[0].clone(); 40], ..all() };
    let long_key = "k".repeat(300);
    let others: [Vec<RateLimitDescriptor>; 5] = [
        vec![all(); 10_000],
        vec![deep],
        vec![descriptor(&[(&long_key, "x")])],
        vec![descriptor(&[("a\nb", "x")])],
        vec![with_hits(&[("none", "x")], u64::MAX)],
    ];
    for others in others {
        let asked = [vec![ann()], others].concat();
        let before = answered(&service, &framed(&request(vec![with_hits(&[("user", "ann")], 0)]), 1));
        let left = before.statuses[0].limit_remaining;
        let answer = client.check("api", &asked);
        assert_eq!(answer.statuses.len(), asked.len(), "each descriptor has its status");
        let expected = if left > 0 { Code::Ok } else { Code::OverLimit };
        assert_eq!((answer.overall_code(), answer.statuses[0].code()), (expected, expected));
    }
    assert_eq!(client.passes("api", "user", "ann", 1), 0, "each of them was counted");
}

#[test]
fn a_message_that_is_too_long_is_denied() {
    let service = service(RULES);
    let mut client = Client::new(&service);
    let huge = "y".repeat(1 << 20);
    assert_eq!(client.check_one("api", "all", &huge).overall_code(), Code::OverLimit);
    assert_eq!(client.check_one("api", "all", "1").overall_code(), Code::Ok);
    assert_eq!(canonicalized(&service), 1);
}

#[test]
fn a_client_that_brings_ever_new_limits_is_denied_and_not_let_pass() {
    let service = service(RULES);
    let mut client = Client::new(&service);
    let codes: Vec<Code> = (1..=1_100)
        .map(|requests| client.check("api", &[with_limit(&[("all", "eve")], requests, 4)]).overall_code())
        .collect();
    assert_eq!(codes[0], Code::Ok);
    assert_eq!(codes[1_099], Code::OverLimit);
    assert_eq!(client.check_one("api", "all", "eve").overall_code(), Code::Ok, "the rules go on");
}

#[test]
fn our_own_protocol_counts_them_too() {
    use crate::support::clients::tidegate::v1::{AcquireRequest, AcquireResponse, Descriptor, Entry};

    let acquire = |byte: u8| {
        let entry = Entry { key: "job".to_owned(), value: format!("seven{MARK}") };
        let descriptors = vec![Descriptor { entries: vec![entry] }];
        framed(&AcquireRequest { domain: "api".to_owned(), descriptors }, byte)
    };
    let service = service(RULES);
    for byte in [0xff, 0x00] {
        let held = |body: &[u8]| {
            let (status, message, body) =
                raw_call_of(service.grpc, "/tidegate.v1.Permits/Acquire", &[], body);
            assert_eq!(status, "0", "{message}");
            AcquireResponse::decode(&body[5..]).expect("a response").denial.is_none()
        };
        assert_eq!([(); 2].map(|()| held(&acquire(byte))), [true, false]);
    }
    let refusing = Setup::rules(RULES).with("bounds.odd_values", "refuse").start();
    for byte in [0xff, 0x00] {
        let (status, message, _) =
            raw_call_of(refusing.grpc, "/tidegate.v1.Permits/Acquire", &[], &acquire(byte));
        assert_eq!(status, (GrpcCode::InvalidArgument as i32).to_string(), "{message}");
    }
}

#[test]
fn our_own_protocol_decides_what_is_beyond_a_bound() {
    use crate::support::clients::tidegate::v1::{AcquireRequest, AcquireResponse, Descriptor, Entry};

    let descriptor = |entries: &[(&str, &str)]| {
        let entry =
            |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
        Descriptor { entries: entries.iter().map(entry).collect() }
    };
    let long_key = "k".repeat(300);
    let odd_key = format!("k{MARK}");
    let others = [
        vec![descriptor(&[("none", "xx")]); 10_000],
        vec![descriptor(&[("none", "xx")].repeat(40))],
        vec![descriptor(&[(&long_key, "xx")])],
        vec![descriptor(&[(&odd_key, "xx")])],
    ];
    let acquire = |service: &Service, job: &str, others: &[Descriptor]| {
        let descriptors = [&[descriptor(&[("job", job)])], others].concat();
        let body = framed(&AcquireRequest { domain: "api".to_owned(), descriptors }, 0xff);
        raw_call_of(service.grpc, "/tidegate.v1.Permits/Acquire", &[], &body)
    };
    let service = service(RULES);
    let refusing = Setup::rules(RULES).with("bounds.odd_values", "refuse").start();
    for (number, others) in others.iter().enumerate() {
        // Each job has one slot: the first request holds it, and the second is denied.
        let held = [(); 2].map(|()| {
            let (status, message, body) = acquire(&service, &format!("job-{number}"), others);
            assert_eq!(status, "0", "{message}");
            AcquireResponse::decode(&body[5..]).expect("a response").denial.is_none()
        });
        assert_eq!(held, [true, false]);
        let (status, message, _) = acquire(&refusing, "seven", others);
        assert_eq!(status, (GrpcCode::InvalidArgument as i32).to_string(), "{message}");
    }
    assert_eq!(canonicalized(&service), 8);
}
