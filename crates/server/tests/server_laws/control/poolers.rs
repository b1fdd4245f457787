//! Nodes behind `PgBouncer`, in each of its modes: what is answered is what has happened.

use serde_json::{Value, json};
use tidegate_testkit::postgres::{Pooler, PostgresServer};

use super::{RULES, ask_at, requests};
use crate::support::service::{Service, Setup, get, until};

const WRITES: usize = 10;

fn changes(service: &Service) -> usize {
    let listed = service.ask("GET", "/admin/v1/audit?limit=1000", &Value::Null).json();
    listed["items"].as_array().map(Vec::len).expect("a list")
}

/// Every change that was made through a node is in its files.
fn recorded(service: Service) -> usize {
    let metrics = get(service.admin, "/metrics").body;
    for line in ["ratelimit_audit_dropped_total 0", "ratelimit_audit_waiting 0"] {
        assert!(metrics.contains(line), "{line}");
    }
    let ended = service.stop();
    let folder = ended.folder.path().join("data/audit");
    tidegate_audit::verify(&folder).expect("the chain is whole");
    let files = std::fs::read_dir(&folder).expect("a folder").flatten();
    let text: String = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    text.lines().filter(|line| line.contains("put_tenant") || line.contains("create_token")).count()
}

#[test]
fn every_write_through_a_pooler_is_answered_as_it_happened_and_written_down() {
    let postgres = PostgresServer::start();
    for mode in ["transaction", "session", "statement"] {
        // In that mode a client has its connection for good.
        let pooler = Pooler::in_mode(&postgres, mode, if mode == "session" { 20 } else { 3 });
        let url = pooler.url(&postgres.create_database());
        let node = || Setup::rules(RULES).with("catalog", &url).start();
        let nodes = [node(), node()];
        std::thread::scope(|scope| {
            for (number, node) in nodes.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..WRITES {
                        node.put_quota(&format!("t{number}-{round}"), &requests(1));
                        let name = format!("token-{number}-{round}");
                        let made =
                            node.ask("POST", "/admin/v1/tokens", &json!({ "name": name, "role": "viewer" }));
                        assert_eq!(made.status, 201, "{mode}: {}", made.body);
                        let token = made.json()["token"].as_str().expect("a token").to_owned();
                        let look = ask_at(node.admin, Some(&token), "GET", "/admin/v1/quotas", &[], "");
                        assert_eq!(look.status, 200, "{mode}");
                    }
                });
            }
        });
        assert_eq!(changes(&nodes[0]), 4 * WRITES, "{mode}");
        until("each hears of the other's", || {
            nodes.iter().all(|node| {
                get(node.admin, "/metrics")
                    .body
                    .contains(&format!("ratelimit_catalog_version {}", 4 * WRITES))
            })
        });
        for node in nodes {
            assert_eq!(recorded(node), 2 * WRITES, "{mode}");
        }
    }
}
