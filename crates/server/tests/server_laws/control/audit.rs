//! Who changed what, and who was denied, in the catalog and in files that nobody can change unseen.

use std::fs;

use serde_json::{Value, json};

use super::{requests, start};
use crate::support::service::{Ended, Setup, until};

fn trail(ended: &Ended) -> (tidegate_audit::Summary, Vec<Value>) {
    let folder = ended.folder.path().join("data/audit");
    let summary = tidegate_audit::verify(&folder).expect("the chain is whole");
    let mut lines = Vec::new();
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("a folder").flatten().map(|file| file.path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "jsonl")) {
        let text = fs::read_to_string(file).expect("it is text");
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
    }
    (summary, lines)
}

#[test]
fn every_change_is_written_down_with_who_before_and_after() {
    let service = start();
    service.put_quota("ann", &requests(1));
    service.put_quota("ann", &requests(2));
    service.put_quota("ann", &requests(2));
    service.ask("PUT", "/admin/v1/switches/api_key", &json!({ "mode": "off" }));
    service.ask("PUT", "/admin/v1/quotas/ann", &json!({ "tier": "nothing" }));
    let audit = service.ask("GET", "/admin/v1/audit", &Value::Null).json();
    let items = audit["items"].as_array().expect("a list").clone();
    let actions: Vec<_> = items.iter().map(|item| item["action"].as_str().expect("a text")).collect();
    assert_eq!(
        actions,
        ["set_switch", "put_tenant", "put_tenant"],
        "newest first; what changed nothing is not there"
    );
    assert_eq!(items[1]["before"]["overrides"][0]["limited"]["requests"], 1);
    assert_eq!(items[1]["after"]["overrides"][0]["limited"]["requests"], 2);
    assert!(
        items
            .iter()
            .all(|item| item["actor"] == "node"
                && item["request_id"].as_str().is_some_and(|id| !id.is_empty()))
    );
    let filtered = service.ask("GET", "/admin/v1/audit?object=ann&limit=1", &Value::Null).json();
    assert_eq!(filtered["items"].as_array().map(Vec::len), Some(1));
    let ended = service.stop();
    let (_, lines) = trail(&ended);
    let changes: Vec<_> = lines.iter().filter(|line| line.to_string().contains("put_tenant")).collect();
    assert_eq!(changes.len(), 2, "{lines:?}");
}

#[test]
fn denials_are_sampled_into_the_trail_and_values_only_where_asked_for() {
    for (asked, told) in [("false", false), ("true", true)] {
        let service = Setup::rules(super::RULES).with("audit.descriptors", asked).start();
        assert_eq!(service.passing(&json!({ "api_key": "very-secret-key" }), 20), 5);
        let (_, lines) = trail(&service.stop());
        let denial = lines.iter().find(|line| line.to_string().contains("denial")).expect("a denial");
        assert_eq!(denial.to_string().contains("very-secret-key"), told, "{denial}");
    }
    let service = Setup::rules(super::RULES).with("audit.denials_per_second", "0").start();
    service.passing(&json!({ "api_key": "ann" }), 20);
    let (_, lines) = trail(&service.stop());
    assert!(!lines.iter().any(|line| line.to_string().contains("\"denial\"")), "{lines:?}");
}

#[test]
fn a_killed_service_leaves_a_trail_that_verifies_and_goes_on() {
    let service = start();
    for number in 0..20 {
        service.put_quota("ann", &requests(number));
    }
    let ended = service.kill();
    let service = Setup::after(ended).start();
    service.put_quota("ann", &requests(100));
    let (summary, lines) = trail(&service.stop());
    let changes = lines.iter().filter(|line| line.to_string().contains("put_tenant")).count();
    assert_eq!(changes, 21, "what was answered was written: {summary:?}");
}

#[test]
fn of_many_changes_at_once_each_is_written_down_once() {
    let service = start();
    let token = service.token();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (service, token) = (&service, &token);
            scope.spawn(move || {
                for number in 0..10 {
                    // One request id for all: it is the change that counts.
                    let headers = [("x-request-id", "same"), ("content-type", "application/json")];
                    let (path, body) = (format!("/admin/v1/quotas/t{writer}"), requests(number).to_string());
                    let put = super::ask_at(service.admin, Some(token), "PUT", &path, &headers, &body);
                    assert_eq!(put.status, 200, "{}", put.body);
                }
            });
        }
    });
    // What changes nothing is not written down again.
    service.put_quota("t0", &requests(9));
    let (_, lines) = trail(&service.stop());
    assert_eq!(lines.iter().filter(|line| line.to_string().contains("put_tenant")).count(), 80);
}

#[test]
fn a_request_id_of_the_callers_own_is_kept_and_answered() {
    let service = start();
    let headers = [("x-request-id", "from-the-caller-1"), ("content-type", "application/json")];
    let answer =
        super::ask_at(service.admin, Some(&service.token()), "PUT", "/admin/v1/quotas/ann", &headers, "{}");
    assert_eq!(
        (answer.status, answer.header("x-request-id")),
        (200, Some("from-the-caller-1")),
        "{}",
        answer.body
    );
    let audit = service.ask("GET", "/admin/v1/audit", &Value::Null).json();
    assert_eq!(audit["items"][0]["request_id"], "from-the-caller-1");
    until("it is counted", || {
        crate::support::service::get(service.admin, "/metrics")
            .body
            .contains("ratelimit_audit_dropped_total 0")
    });
}

#[test]
fn what_was_done_to_tokens_is_shown_to_administrators_only() {
    let service = start();
    let make = |name: &str, role: &str| {
        let made = service.ask("POST", "/admin/v1/tokens", &json!({ "name": name, "role": role })).json();
        made["token"].as_str().expect("a token").to_owned()
    };
    let tokens = [make("look", "viewer"), make("work", "operator"), make("all", "admin")];
    service.put_quota("ann", &requests(1));
    let seen = |token: &str, query: &str| {
        let path = format!("/admin/v1/audit{query}");
        let answer = super::ask_at(service.admin, Some(token), "GET", &path, &[], "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["items"].as_array().expect("a list").clone()
    };
    for token in &tokens[..2] {
        for query in ["", "?kind=token", "?action=create_token", "?limit=1"] {
            let items = seen(token, query);
            assert!(items.iter().all(|item| item["kind"] != "token"), "{items:?}");
            assert_eq!(items.len(), usize::from(!query.contains("token")), "{query}");
        }
    }
    assert_eq!(seen(&tokens[2], "").len(), 4);
}
