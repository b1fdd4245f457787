//! What becomes of requests while Tidegate is away.

use super::edge::Setup;
use crate::support::service::service;

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]
";

#[test]
fn requests_pass_while_no_node_answers() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc]).start();
    assert_eq!(edge.statuses("ann", 2), [200, 429]);
    assert!(service.stop().status.success());
    assert_eq!(edge.statuses("ann", 3), [200; 3]);
    assert_eq!(edge.number("cluster.upstream.ratelimit.error"), Some(3));
}

#[test]
fn with_failure_mode_deny_requests_fail_while_no_node_answers() {
    let service = service(RULES);
    let edge = Setup::asking(&[service.grpc]).failure_mode_deny().start();
    assert_eq!(edge.statuses("ann", 2), [200, 429]);
    assert!(service.stop().status.success());
    assert_eq!(edge.statuses("ann", 3), [500; 3]);
}

#[test]
fn envoy_comes_back_to_a_node_that_comes_back() {
    let first = service(RULES);
    let address = first.grpc;
    let edge = Setup::asking(&[address]).failure_mode_deny().start();
    assert_eq!(edge.statuses("ann", 2), [200, 429]);
    let ended = first.kill();
    assert_eq!(edge.get("bob").status, 500);
    let _second =
        crate::support::service::Setup::after(ended).with("grpc.listen", &address.to_string()).start();
    crate::support::service::until("requests are decided again", || edge.get("bob").status != 500);
    assert_eq!(edge.get("bob").status, 429);
}
