//! What a client may send to make Envoy's call fail, and so slip past its limit.

use serde_json::json;

use super::edge::{Edge, Setup};
use crate::overload::token_of;
use crate::support::service::{Setup as ServiceSetup, send_bytes, service};

const RULES: &str = "
domain: api
descriptors:
  - {key: all, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: path, rate_limit: {unit: day, requests_per_unit: 1000}}
";

/// An Envoy that asks about all requests together, and about the path and a header many times over.
fn edge(service: &crate::support::service::Service) -> Edge {
    let all = json!({"generic_key": {"descriptor_key": "all", "descriptor_value": "1"}});
    let path = json!({"request_headers": {"header_name": ":path", "descriptor_key": "path"}});
    let odd = json!({"request_headers": {"header_name": "x-odd", "descriptor_key": "path", "skip_if_absent": true}});
    let mut rate_limits = vec![json!({"actions": [all]}), json!({"actions": [odd]})];
    rate_limits.extend((0..12).map(|_| json!({"actions": [path]})));
    Setup::asking(&[service.grpc]).rate_limits(rate_limits.into()).start()
}

fn ask(edge: &Edge, path: &str, odd: &[u8]) -> u16 {
    let mut request =
        format!("GET {path} HTTP/1.1\r\nhost: edge\r\nconnection: close\r\nx-odd: ").into_bytes();
    request.extend_from_slice(odd);
    request.extend_from_slice(b"\r\n\r\n");
    send_bytes(edge.address(), &request).status
}

#[test]
fn long_paths_do_not_slip_past_a_limit() {
    let service = service(RULES);
    let edge = edge(&service);
    assert_eq!([(); 3].map(|()| ask(&edge, "/", b"x")), [200, 200, 429]);
    // Envoy takes no more than 60 KiB of headers.
    let long = format!("/?{}", "y".repeat(58 << 10));
    assert_eq!(ask(&edge, &long, b"x"), 429);
    assert_eq!(edge.number("cluster.upstream.ratelimit.error").unwrap_or(0), 0);
}

#[test]
fn values_that_are_not_text_do_not_slip_past_a_limit() {
    let service = service(RULES);
    let edge = edge(&service);
    // Whether the upstream likes it is its own affair.
    assert_eq!([(); 3].map(|()| ask(&edge, "/", b"\xff\xfe") == 429), [false, false, true]);
    assert_eq!(edge.number("cluster.upstream.ratelimit.error").unwrap_or(0), 0);
}

#[test]
fn of_six_requests_of_an_agent_that_is_not_text_three_pass() {
    let rules = "
domain: api
descriptors: [{key: agent, rate_limit: {unit: day, requests_per_unit: 3}}]
";
    let service = service(rules);
    let agent = json!({"request_headers": {"header_name": "user-agent", "descriptor_key": "agent"}});
    let edge = Setup::asking(&[service.grpc]).rate_limits(json!([{"actions": [agent]}])).start();
    let passes = |agent: &[u8]| {
        let mut request = b"GET / HTTP/1.1\r\nhost: edge\r\nconnection: close\r\nuser-agent: ".to_vec();
        request.extend_from_slice(agent);
        request.extend_from_slice(b"\r\n\r\n");
        // Whether the upstream likes it is its own affair.
        (0..6).filter(|_| send_bytes(edge.address(), &request).status != 429).count()
    };
    for agent in [&b"me\xff"[..], b"me", b"\xc3\x28", &[0x80; 300], &vec![b'z'; 50 << 10]] {
        assert_eq!(passes(agent), 3, "{:?}", &agent[..agent.len().min(9)]);
    }
    assert_eq!(edge.number("cluster.upstream.ratelimit.error").unwrap_or(0), 0);
}

/// Headers of a request that Envoy copies into the head of its call, up to all that it takes of a client. With
/// `bounds.odd_values: refuse` the call fails, and Envoy lets the request pass, which shows that it does copy them.
#[test]
fn headers_that_envoy_copies_into_its_call_do_not_slip_past_a_limit() {
    for (odd_values, status) in [("count", 429), ("refuse", 200)] {
        let setup = ServiceSetup::rules(RULES).with("http.tokens", "true");
        let service = setup.with("bounds.odd_values", odd_values).start();
        let token = token_of(&service, "envoy", "viewer");
        let all = json!({"generic_key": {"descriptor_key": "all", "descriptor_value": "1"}});
        let edge = Setup::asking(&[service.grpc])
            .rate_limits(json!([{"actions": [all]}]))
            .metadata("x-copy", "%REQ(x-big)%")
            .token(&token)
            .traced()
            .start();
        let trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let ask = |copied_bytes: usize, trace_bytes: usize| {
            let (copied, state) = ("y".repeat(copied_bytes), format!("a={}", "z".repeat(trace_bytes)));
            edge.get_with(&[("x-big", &copied), trace, ("tracestate", &state)]).status
        };
        assert_eq!([(); 3].map(|()| ask(1, 1)), [200, 200, 429]);
        for (copied_bytes, trace_bytes) in [(17_000, 1), (58 << 10, 1), (1, 58 << 10), (28 << 10, 28 << 10)] {
            let found = ask(copied_bytes, trace_bytes);
            assert_eq!(found, status, "{odd_values}: {copied_bytes} and {trace_bytes} bytes");
        }
        let failed = if odd_values == "count" { 0 } else { 4 };
        assert_eq!(edge.number("cluster.upstream.ratelimit.error").unwrap_or(0), failed);
    }
}
