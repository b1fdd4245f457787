//! Lists, tokens, and the audit trail.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::VirtualClock;
use tidegate_audit::{Change, FileSink, Settings, Trail};

use super::node::{Answer, Asked, Node};
use super::{command, finish, folder, run};

/// Five tenants in pages of two, whatever limit is asked for.
fn tenants() -> Node {
    Node::new(|asked: &Asked| {
        let from = asked
            .line
            .split_once("cursor=c")
            .map_or(0, |(_, number)| number.parse::<usize>().expect("a number"));
        let item = |number: usize| json!({ "tenant": format!("t{number}"), "tier": null, "overrides": [], "updated_at": "2024-01-01T00:00:00Z", "revision": 1 });
        let items: Vec<Value> = (from..5).take(2).map(item).collect();
        let next = (from + 2 < 5).then(|| format!("c{}", from + 2));
        Answer::ok(&json!({ "items": items, "next_cursor": next }))
    })
}

#[test]
fn a_list_is_one_page_and_says_that_there_is_more_unless_all_is_asked_for() {
    let node = tenants();
    let page = run(&node, &["quota", "list", "--tier", "a b", "-q", "t", "-o", "name"]);
    assert_eq!(node.last().line, "GET /admin/v1/quotas?tier=a%20b&q=t&limit=100");
    assert_eq!(
        (page.out.as_str(), page.err.as_str()),
        ("t0\nt1\n", "there is more: --all, or --cursor 'c2'\n")
    );
    let next = run(&node, &["quota", "list", "--cursor", "c2", "--limit", "2", "--no-headers"]);
    assert!(
        next.out.starts_with("t2      -  0  2024-01-01 00:00:00Z (") || next.out.starts_with("t2  -  0  "),
        "{}",
        next.out
    );
    let all = run(&node, &["quota", "list", "--all", "-o", "name"]);
    assert_eq!((all.out.as_str(), all.err.as_str()), ("t0\nt1\nt2\nt3\nt4\n", ""));
    let all: Value = serde_json::from_str(&run(&node, &["quota", "list", "--all", "--json"]).out).unwrap();
    assert_eq!((all["items"].as_array().unwrap().len(), &all["next_cursor"]), (5, &Value::Null));
    let page: Value = serde_json::from_str(&run(&node, &["quota", "list", "--json"]).out).unwrap();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next_cursor"]), (2, &json!("c2")));
}

#[test]
fn an_empty_list_prints_nothing_that_a_script_would_read() {
    let node = Node::new(|_: &Asked| Answer::ok(&json!({ "items": [], "next_cursor": null })));
    for args in [&["quota", "list"][..], &["rules", "list"], &["token", "list"], &["audit", "list"]] {
        let done = run(&node, args);
        assert_eq!((done.code, done.out.as_str()), (0, ""), "{args:?}");
        assert!(!done.err.is_empty(), "{args:?}");
    }
}

#[test]
fn a_new_token_is_alone_on_standard_output() {
    let node = Node::new(|_: &Asked| {
        Answer(
            "201 Created",
            "",
            json!({ "token": "tg_new", "id": "0a", "name": "billing", "role": "viewer", "expires_at": null })
                .to_string(),
        )
    });
    let done = run(&node, &["token", "create", "billing", "--role", "viewer", "--expires-at", "2030-01-01"]);
    assert_eq!((done.code, done.out.as_str()), (0, "tg_new\n"));
    assert!(done.err.contains("id 0a") && !done.err.contains("tg_new"), "{}", done.err);
    assert_eq!(
        node.last().json(),
        json!({ "name": "billing", "role": "viewer", "expires_at": "2030-01-01T00:00:00Z" })
    );
    assert_eq!(run(&node, &["token", "create", "billing"]).code, 2);
}

#[test]
fn tokens_are_listed_with_what_became_of_them() {
    let node = Node::new(|_: &Asked| {
        let token = |id: &str, expires: Value, revoked: Value| {
            json!({ "id": id, "name": "n", "role": "admin", "created_at": "2024-01-01T00:00:00Z", "expires_at": expires,
                    "revoked_at": revoked, "last_used_at": null })
        };
        let past = json!("2024-01-02T00:00:00Z");
        Answer::ok(&json!({ "items": [
            token("a", Value::Null, Value::Null), token("b", past.clone(), Value::Null), token("c", Value::Null, past),
        ] }))
    });
    let shown = run(&node, &["token", "list"]).out;
    let states: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(states, ["valid", "expired", "revoked"], "{shown}");
}

#[test]
fn audit_list_asks_for_what_its_flags_name() {
    let node = Node::new(|_: &Asked| {
        Answer::ok(&json!({ "next_cursor": null, "items": [{
            "id": 1, "at": "2024-01-01T00:00:00Z", "actor": "ann", "action": "put_tenant", "kind": "tenant", "object": "acme",
            "before": null, "after": { "tier": "pro" }, "request_id": "r1",
        }] }))
    });
    let flags = [
        "--actor",
        "ann",
        "--object",
        "a c",
        "--from",
        "2024-01-01",
        "--to",
        "2024-01-02",
        "--limit",
        "5",
        "-o",
        "wide",
    ];
    let done = run(&node, &[&["audit", "list"], &flags[..]].concat());
    assert_eq!(
        node.last().line,
        "GET /admin/v1/audit?actor=ann&object=a%20c&from=2024-01-01T00%3A00%3A00Z&to=2024-01-02T00%3A00%3A00Z&limit=5"
    );
    let row = done.out.lines().nth(1).expect("a row");
    assert!(
        row.starts_with("2024-01-01 00:00:00Z (")
            && row.ends_with("ann    put_tenant  acme    r1       -       {\"tier\":\"pro\"}"),
        "{row}"
    );
}

#[test]
fn audit_verify_tells_a_whole_trail_from_a_broken_one() {
    let here = folder();
    let audit = here.path().join("data/audit");
    let settings = Settings::default();
    let trail =
        Trail::start(FileSink::open(&audit, &settings).unwrap(), &settings, Arc::new(VirtualClock::new()));
    for number in 0..3 {
        trail.record(Change { actor: "ann".to_owned(), object: format!("t{number}"), ..Change::default() });
    }
    assert!(trail.close(Duration::from_mins(1)));
    fs::write(here.path().join("tidegate.yaml"), "data: data\n").unwrap();
    let whole = finish(command(here.path(), &["audit", "verify"]));
    assert!(
        whole.code == 0 && whole.out.starts_with("whole: 3 records in 1 file, from 1 to 3\nlast hash: "),
        "{}",
        whole.err
    );
    let summary = finish(command(here.path(), &["audit", "verify", "data/audit", "--json"])).out;
    assert_eq!(serde_json::from_str::<Value>(&summary).unwrap()["records"], 3);

    let file = audit.join("audit-00000000000000000001.jsonl");
    let spoilt = fs::read_to_string(&file).unwrap().replace("\"t1\"", "\"t9\"");
    fs::write(&file, spoilt).unwrap();
    let broken = finish(command(here.path(), &["audit", "verify"]));
    assert_eq!((broken.code, broken.out.as_str()), (1, ""));
    assert!(broken.err.contains(".jsonl:2: its text does not have its hash"), "{}", broken.err);
    let nowhere = finish(command(here.path(), &["audit", "verify", "nowhere"]));
    assert!(nowhere.code == 1 && nowhere.err.contains("nowhere"), "{}", nowhere.err);
}
