//! Nodes that share a store know of each other.

use serde_json::json;
use tidegate_testkit::redis::RedisServer;

use super::RULES;
use crate::support::service::{Service, Setup, until};

fn node(server: &RedisServer, name: &str) -> Service {
    let setup = Setup::rules(RULES).with("store", &server.url()).with("redis.deadline", "10s");
    setup.with("redis.secret", "between nodes").with("node", name).start()
}

#[test]
fn two_nodes_on_one_store_show_one_top_list_and_each_other() {
    let server = RedisServer::start();
    let nodes = [node(&server, "one"), node(&server, "two")];
    for node in &nodes {
        for _ in 0..4 {
            node.check("api", r#"{"user":"ann"}"#);
            node.check("api", r#"{"secret":"hunter2"}"#);
        }
    }
    for node in &nodes {
        until("the lists are merged", || {
            node.top("active", "10m", "user") == [(json!("user=ann"), 8)]
                && node.top("denied", "10m", "user") == [(json!("user=ann"), 6)]
        });
        let merged = node.read("top?by=active&rule=secret");
        assert_eq!(merged["scope"], "fleet");
        assert_eq!(
            (&merged["keys"][0]["count"], &merged["keys"][0]["key"]),
            (&json!(8), &json!(null)),
            "{merged}"
        );
        let alone = node.read("top?by=active&rule=user&scope=node");
        assert_eq!((&alone["scope"], &alone["keys"][0]["count"]), (&json!("node"), &json!(4)));
        let listed = node.read("nodes");
        let names: Vec<&str> = listed["nodes"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|node| node["name"].as_str())
            .collect();
        assert_eq!(names.len(), 2, "{listed}");
        assert!(names.contains(&"one") && names.contains(&"two"), "{listed}");
    }
    // Without the store, a node shows what it knows by itself.
    drop(server);
    until("the list is the node's own", || {
        let list = nodes[0].read("top?by=active&rule=user");
        list["scope"] == "node" && list["keys"][0]["count"].as_u64() >= Some(4)
    });
}
