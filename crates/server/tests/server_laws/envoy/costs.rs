//! Requests that take more than one unit, take it after the response, or give some back.

use serde_json::{Value, json};

use super::edge::{Edge, Setup};
use crate::support::service::{self, Service, post, service, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 100}}]
";

fn user() -> Value {
    json!([{"request_headers": {"header_name": "x-user", "descriptor_key": "user"}}])
}

/// One unit before the request, so that nobody passes with nothing left, and the rest after the response.
fn paid_afterwards(service: &Service) -> Edge {
    Setup::asking(&[service.grpc])
        .rate_limits(json!([
            {"actions": user()},
            {
                "actions": user(),
                "apply_on_stream_done": true,
                "hits_addend": {"format": "%DYNAMIC_METADATA(cost:units)%"},
            },
        ]))
        .start()
}

/// What a user has left; asking takes nothing.
fn left(service: &Service, user: &str) -> u64 {
    let body = format!(r#"{{"domain":"api","descriptor":{{"user":"{user}"}},"cost":0}}"#);
    let answer = post(service.http, "/v1/check", &body).json();
    answer["limits"][0]["remaining"].as_u64().expect("a number")
}

#[test]
fn a_request_takes_the_units_that_its_route_says() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc])
        .rate_limits(json!([{"actions": user(), "hits_addend": {"number": 40}}]))
        .start();
    assert_eq!(edge.statuses("ann", 3), [200, 200, 429]);
    assert_eq!(left(&service, "ann"), 20, "what did not fit was not taken");
}

#[test]
fn a_cost_known_after_the_response_is_taken_then() {
    let service = service(RULES);
    let edge = paid_afterwards(&service);
    assert_eq!(edge.get_with(&[("x-user", "ann"), ("want-cost", "29")]).status, 200);
    until("the cost is taken", || left(&service, "ann") == 70);
    assert_eq!(edge.get_with(&[("x-user", "ann"), ("want-cost", "69")]).status, 200);
    until("the cost is taken", || left(&service, "ann") == 0);
    assert_eq!(edge.get("ann").status, 429);
}

#[test]
fn a_cost_beyond_what_is_left_is_taken_if_denied_requests_count() {
    let service = service::Setup::rules(RULES).with("defaults.count_denied", "true").start();
    let edge = paid_afterwards(&service);
    assert_eq!(edge.get_with(&[("x-user", "ann"), ("want-cost", "150")]).status, 200);
    until("the cost is taken", || left(&service, "ann") == 0);
    assert_eq!(edge.get("ann").status, 429);
}

#[test]
fn negative_hits_give_units_back_and_never_above_full() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc])
        .rate_limits(json!([
            {"actions": user(), "hits_addend": {"number": 50}},
            {
                "actions": [{"request_headers": {"header_name": "x-refund", "descriptor_key": "user"}}],
                "apply_on_stream_done": true,
                "hits_addend": {"number": 80, "is_negative_hits": true},
            },
        ]))
        .start();
    assert_eq!(edge.statuses("ann", 2), [200, 200]);
    assert_eq!(left(&service, "ann"), 0);
    assert_eq!(edge.get_with(&[("x-refund", "ann")]).status, 200);
    until("units are given back", || left(&service, "ann") == 80);
    assert_eq!(edge.get_with(&[("x-refund", "ann")]).status, 200);
    until("units are given back", || left(&service, "ann") == 100);
}
