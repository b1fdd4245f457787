//! What a client behind Envoy sees.

use serde_json::json;

use super::edge::Setup;
use super::load::Load;
use crate::support::service::{self, service, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 3}}]
";

#[test]
fn requests_pass_up_to_the_limit_and_then_get_429() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc]).start();
    assert_eq!(edge.statuses("ann", 5), [200, 200, 200, 429, 429]);
    assert_eq!(edge.statuses("bob", 1), [200], "somebody else");
    assert_eq!(edge.get_with(&[]).status, 200, "nobody in particular: no descriptor, no call");
}

#[test]
fn our_headers_reach_the_client_if_told() {
    let service = service::Setup::rules(RULES).with("headers.rls", "true").start();
    let edge = Setup::asking(&[service.grpc]).start();
    let allowed = edge.get("ann");
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("ratelimit-policy"), Some("\"user:day\";q=3;w=86400"));
    assert!(allowed.header("ratelimit").is_some_and(|left| left.starts_with("\"user:day\";r=2;t=")));
    assert_eq!(allowed.header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(allowed.header("retry-after"), None);
    edge.statuses("ann", 2);
    let denied = edge.get("ann");
    assert_eq!(denied.status, 429);
    assert!(denied.header("ratelimit").is_some_and(|left| left.starts_with("\"user:day\";r=0;t=")));
    let retry_after: u64 = denied.header("retry-after").and_then(|text| text.parse().ok()).expect("a number");
    assert!(retry_after > 0);
    assert_eq!(denied.header("x-envoy-ratelimited"), Some("true"));
}

#[test]
fn a_body_of_the_operators_reaches_the_client() {
    let page = "<h1>Slow down</h1><p>{limit} a day</p>";
    let setup = service::Setup::rules(RULES).with("denial.body", page);
    let service = setup.with("denial.content_type", "text/html").start();
    let edge = Setup::asking(&[service.grpc]).start();
    edge.statuses("ann", 3);
    let denied = edge.get("ann");
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("text/html")));
    assert_eq!(denied.body, "<h1>Slow down</h1><p>3 a day</p>");
}

#[test]
fn without_being_told_no_headers_are_added() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc]).start();
    let allowed = edge.get("ann");
    assert_eq!((allowed.status, allowed.header("ratelimit")), (200, None));
}

#[test]
fn the_access_log_names_the_rule_that_decided() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc]).start();
    assert_eq!(edge.statuses("ann", 4), [200, 200, 200, 429]);
    let denied = r#"429 {"limit":"day","rule":"user","source":"memory"}"#;
    until("Envoy has written its log", || edge.access_log().lines().any(|line| line == denied));
}

#[test]
fn every_descriptor_has_to_be_within_its_limit() {
    let rules = "
domain: api
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: all, rate_limit: { unit: day, requests_per_unit: 4 } }
";
    let service = service(rules);
    let edge = Setup::asking(&[service.grpc])
        .rate_limits(json!([
            {"actions": [{"request_headers": {"header_name": "x-user", "descriptor_key": "user"}}]},
            {"actions": [{"generic_key": {"descriptor_key": "all", "descriptor_value": "yes"}}]},
        ]))
        .start();
    assert_eq!(edge.statuses("ann", 4), [200, 200, 200, 429]);
    assert_eq!(
        edge.statuses("bob", 2),
        [200, 429],
        "ann's denied request has taken nothing of what all share"
    );
}

#[test]
fn a_reload_under_load_fails_no_request_and_takes_effect() {
    let plenty = RULES.replace('3', "1_000_000");
    let service = service(&plenty);
    let edge = Setup::asking(&[service.grpc]).failure_mode_deny().start();
    let load = Load::on(&edge);
    for round in 0..5 {
        service.change_rules(&plenty.replace("1_000_000", &format!("2_000_00{round}")));
        load.goes_on();
    }
    let seen = load.stop();
    assert_eq!(seen.keys().collect::<Vec<_>>(), [&200], "{seen:?}");
    service.change_rules(RULES);
    assert_eq!(edge.get("ann").status, 429, "far more than 3 were taken");
    assert_eq!(edge.statuses("bob", 4), [200, 200, 200, 429]);
}

#[test]
fn what_envoy_tells_of_a_denial_is_when_the_request_could_pass() {
    let rules = "
domain: api
descriptors: [{key: user, limits: [{algorithm: token_bucket, requests: 6, per: minute, burst: 3}]}]
";
    let service = service(rules);
    let edge = Setup::asking(&[service.grpc]).own_headers().start();
    assert_eq!(edge.statuses("ann", 3), [200; 3]);
    let denied = edge.get("ann");
    assert_eq!(denied.status, 429);
    let reset_s: u64 =
        denied.header("x-ratelimit-reset").and_then(|text| text.parse().ok()).expect("a number");
    // One unit comes back in ten seconds, all three in thirty.
    assert!((1..=10).contains(&reset_s), "{reset_s}");
}

#[test]
fn envoy_sends_a_token_where_one_is_needed() {
    let service = service::Setup::rules(RULES).with("grpc.tokens", "needed").start();
    let token = std::fs::read_to_string(service.file("data/admin-token")).expect("a token");
    let edge = Setup::asking(&[service.grpc]).token(token.trim()).start();
    assert_eq!(edge.statuses("ann", 5), [200, 200, 200, 429, 429]);
    let without = Setup::asking(&[service.grpc]).failure_mode_deny().start();
    assert_eq!(without.statuses("ann", 1), [500]);
}

#[test]
fn a_denial_is_recorded_with_the_id_that_envoy_gave_the_request() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc]).request_ids().start();
    edge.statuses("ann", 3);
    let own = "0a6e1b5c-90f7-4c52-8a4c-5d0a1d3c5a01";
    assert_eq!(edge.get_with(&[("x-user", "ann"), ("x-request-id", own)]).status, 429);
    let denials = service.ask("GET", "/admin/v1/denials", &serde_json::Value::Null).json();
    assert_eq!(denials["denials"][0]["request_id"], own, "{denials}");
}
