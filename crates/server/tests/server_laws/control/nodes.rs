//! Two nodes on one `PostgreSQL` and one Redis: changed through one, observed through the other.

use std::time::Duration;

use quanta::Instant;
use serde_json::{Value, json};
use tidegate_testkit::postgres::PostgresServer;
use tidegate_testkit::redis::RedisServer;

use super::{RULES, ask_at, requests};
use crate::support::service::{Service, Setup, get, until};

/// A change must act everywhere within 2 s; the margin is for machines that do other things too.
const SOON: Duration = Duration::from_secs(10);

struct Fleet {
    nodes: [Service; 2],
    _redis: RedisServer,
    _postgres: PostgresServer,
}

/// A node that waits for the store for as long as a busy machine takes: none of this is about its deadline.
fn on(redis: &RedisServer) -> Setup {
    Setup::rules(RULES).with("store", &redis.url()).with("redis.deadline", "5s")
}

fn fleet() -> Fleet {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let url = postgres.url(&postgres.create_database());
    let node = || on(&redis).with("catalog", &url).start();
    Fleet { nodes: [node(), node()], _redis: redis, _postgres: postgres }
}

fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    until(what, &mut holds);
    assert!(begun.elapsed() < SOON, "{what} took {:?}", begun.elapsed());
}

#[test]
fn what_is_changed_on_one_node_acts_on_the_other() {
    let fleet = fleet();
    let [one, other] = &fleet.nodes;
    let limit = || {
        let shown = other.ask("GET", "/admin/v1/usage/ann", &Value::Null).json();
        shown["usage"][0]["limit"].as_u64()
    };
    assert_eq!(limit(), Some(5));
    one.put_quota("ann", &requests(9));
    soon("the override acts on the other node", || limit() == Some(9));
    // One counter, whichever node is asked.
    let ann = json!({ "api_key": "ann" });
    assert_eq!(one.passing(&ann, 4) + other.passing(&ann, 100), 9);
    let usage = one.ask("GET", "/admin/v1/usage/ann", &Value::Null).json();
    assert_eq!((&usage["scope"], &usage["usage"][0]["used"]), (&json!("fleet"), &json!(9)));
    other.ask("POST", "/admin/v1/usage/ann/reset", &Value::Null);
    soon("given back on one, it is there on the other", || one.passing(&ann, 1) == 1);
    let text =
        "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n";
    let put = ask_at(one.admin, Some(&one.token()), "PUT", "/admin/v1/rules/shop", &[], text);
    assert_eq!(put.status, 200, "{}", put.body);
    soon("the rules are in force on the other node", || {
        other.ask("GET", "/admin/v1/rules", &Value::Null).body.contains("\"shop\"")
    });
    assert_eq!(other.ask("PUT", "/admin/v1/switches/api_key", &json!({ "mode": "off" })).status, 200);
    soon("the switch is thrown on the first node", || one.passing(&ann, 30) == 30);
    let made = one.ask("POST", "/admin/v1/tokens", &json!({ "name": "ci", "role": "viewer" })).json();
    let token = made["token"].as_str().expect("a token").to_owned();
    let look = |node: &Service| ask_at(node.admin, Some(&token), "GET", "/admin/v1/quotas", &[], "").status;
    soon("the token counts on the other node", || look(other) == 200);
    let id = made["id"].as_str().expect("an id");
    assert_eq!(other.ask("DELETE", &format!("/admin/v1/tokens/{id}"), &Value::Null).status, 204);
    soon("it is revoked on both", || look(one) == 401 && look(other) == 401);
}

#[test]
fn two_who_change_the_same_at_once_do_not_overwrite_each_other() {
    let fleet = fleet();
    let [one, other] = &fleet.nodes;
    one.put_quota("ann", &requests(1));
    for round in 2..12 {
        let shown = one.ask("GET", "/admin/v1/quotas/ann", &Value::Null);
        let tag = shown.header("etag").expect("a tag").to_owned();
        let put = |node: &Service, count: i64| {
            let (token, body) = (node.token(), requests(count).to_string());
            ask_at(node.admin, Some(&token), "PUT", "/admin/v1/quotas/ann", &[("if-match", &tag)], &body)
                .status
        };
        let statuses = std::thread::scope(|scope| {
            let first = scope.spawn(|| put(one, 2 * round));
            let second = scope.spawn(|| put(other, 2 * round + 1));
            [first.join().expect("no panic"), second.join().expect("no panic")]
        });
        let mut sorted = statuses;
        sorted.sort_unstable();
        assert_eq!(sorted, [200, 412], "round {round}");
    }
}

#[test]
fn nodes_on_catalogs_of_their_own_are_warned() {
    let redis = RedisServer::start();
    let node = || on(&redis).start();
    let nodes = [node(), node()];
    let seen = |node: &Service| get(node.admin, "/metrics").body.contains("ratelimit_nodes 2");
    until("they see each other", || nodes.iter().all(seen));
    for node in nodes {
        let ended = node.stop();
        assert!(ended.errors.contains("a catalog of its own"), "{}", ended.errors);
    }
}
