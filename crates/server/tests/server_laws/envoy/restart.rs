//! Nodes that restart while requests go on.

use super::edge::{Edge, Setup};
use super::load::Load;
use crate::support::ports;
use crate::support::service::{self, Service, get, until};

/// Nobody is denied by them.
const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1_000_000_000}}]
";

#[test]
fn a_rolling_restart_of_two_nodes_fails_no_request() {
    let nodes = [node(), node()];
    let edge = Setup::asking(&nodes.each_ref().map(|node| node.grpc)).health_checks().failure_mode_deny();
    let edge = edge.start();
    roll(nodes, &edge);
}

#[test]
fn a_rolling_restart_with_a_node_that_stands_by_fails_no_request() {
    let nodes = [node(), node()];
    let edge = Setup::asking(&nodes.each_ref().map(|node| node.grpc)).health_checks().failure_mode_deny();
    let edge = edge.standby().start();
    let load = Load::on(&edge);
    assert_eq!(answered(&nodes[1]), 0, "the first answers all");
    drop(load.stop());
    roll(nodes, &edge);
}

/// On a port that nobody takes while it restarts.
fn node() -> Service {
    configured(service::Setup::rules(RULES), &format!("127.0.0.1:{}", ports::free()))
}

/// The delay is much longer than it takes Envoy to notice.
fn configured(setup: service::Setup, grpc: &str) -> Service {
    setup.with("grpc.listen", grpc).with("drain.delay", "3s").start()
}

/// Restarts one node after the other under load.
fn roll(nodes: [Service; 2], edge: &Edge) {
    until("Envoy takes both nodes for well", || edge.healthy_nodes() == Some(2));
    let load = Load::on(edge);
    let mut again = Vec::new();
    for node in nodes {
        let grpc = node.grpc.to_string();
        let ended = node.stop();
        assert!(ended.status.success(), "{}", ended.errors);
        until("Envoy has noticed", || edge.healthy_nodes() == Some(1));
        load.goes_on();
        again.push(configured(service::Setup::after(ended), &grpc));
        until("Envoy takes both nodes for well", || edge.healthy_nodes() == Some(2));
        load.goes_on();
    }
    let seen = load.stop();
    assert_eq!(seen.keys().collect::<Vec<_>>(), [&200], "{seen:?}");
    assert!(answered(&again[0]) > 0, "the first was asked again");
}

/// How many requests a node has answered since it started.
fn answered(node: &Service) -> u64 {
    let metrics = get(node.admin, "/metrics").body;
    let count = metrics
        .lines()
        .find_map(|line| line.strip_prefix("ratelimit_check_duration_seconds_count{api=\"grpc\"} "));
    count.and_then(|count| count.trim().parse().ok()).expect("a count")
}
