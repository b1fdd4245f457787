//! `quota`, `usage` and `reset`.

use serde_json::{Value, json};

use super::node::{Answer, Asked, Node};
use super::{run, run_with_input};

fn acme() -> Value {
    json!({
        "tenant": "acme", "tier": "pro", "revision": 7, "updated_at": "2024-01-02T03:04:05Z",
        "quotas": { "default": null, "overrides": [
            { "descriptor": "default", "requests_per_unit": 500, "unit": "minute",
              "effective_at": null, "expires_at": null, "in_effect": true },
            { "descriptor": "endpoint:POST /orders", "requests_per_unit": 20, "duration": "90s", "burst": 5,
              "effective_at": null, "expires_at": "2999-01-01T00:00:00Z", "in_effect": true },
        ] },
        "limits": [
            { "domain": "api", "rule": "per_key", "descriptor": "default", "name": "steady",
              "requests_per_unit": 500, "unit": "minute", "algorithm": "sliding_window", "from": "override" },
            { "domain": "api", "rule": "daily", "descriptor": "default", "name": "day", "unlimited": true, "from": "tier" },
        ],
    })
}

/// A node that has acme, and answers what it is told.
fn node() -> Node {
    Node::new(|asked: &Asked| match asked.line.split(' ').next() {
        Some("GET") if asked.line.ends_with("/acme") => {
            Answer("200 OK", "etag: \"7\"\r\n", acme().to_string())
        }
        Some("GET") => Answer::problem("404 Not Found", &json!({ "detail": "no such tenant" })),
        Some("DELETE") => Answer("204 No Content", "", String::new()),
        _ => Answer::ok(&acme()),
    })
}

/// The overrides that a run of `quota set acme` puts.
fn put(args: &[&str]) -> Value {
    let node = node();
    let done = run(&node, &[&["quota", "set", "acme"], args].concat());
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    let asked = node.last();
    assert_eq!(asked.line, "PUT /admin/v1/quotas/acme");
    assert_eq!(asked.header("if-match"), Some("\"7\""));
    asked.json()
}

#[test]
fn set_keeps_what_it_does_not_name() {
    let body = put(&["--tier", "enterprise"]);
    assert_eq!(
        body,
        json!({ "tier": "enterprise", "overrides": [
            { "descriptor": "default", "requests_per_unit": 500, "unit": "minute" },
            { "descriptor": "endpoint:POST /orders", "requests_per_unit": 20, "duration": "90s", "burst": 5,
              "expires_at": "2999-01-01T00:00:00Z" },
        ] })
    );
    assert_eq!(put(&["--no-tier"])["tier"], Value::Null);
}

#[test]
fn set_puts_an_override_in_place_of_the_same_or_beside_the_others() {
    let body = put(&["--requests", "600", "--per", "minute", "--burst", "60"]);
    let expected =
        json!({ "descriptor": "default", "requests_per_unit": 600, "unit": "minute", "burst": 60 });
    assert_eq!((body["overrides"].as_array().unwrap().len(), &body["overrides"][0]), (2, &expected));
    let body =
        put(&["--requests", "9", "--per", "2h", "--descriptor", "a:b=c", "--expires-at", "2030-01-01"]);
    let expected = json!({
        "descriptor": "a:b=c", "requests_per_unit": 9, "duration": "2h", "expires_at": "2030-01-01T00:00:00Z",
    });
    assert_eq!((body["overrides"].as_array().unwrap().len(), &body["overrides"][2]), (3, &expected));
    let body =
        put(&["--override", "7/day", "--override", "a:b/c=d=unlimited", "--replace", "--domain", "api"]);
    let expected = json!([
        { "domain": "api", "descriptor": "default", "requests_per_unit": 7, "unit": "day" },
        { "domain": "api", "descriptor": "a:b/c=d", "unlimited": true },
    ]);
    assert_eq!(body["overrides"], expected);
    let body = put(&["--unlimited", "--replace"]);
    assert_eq!(body["overrides"], json!([{ "descriptor": "default", "unlimited": true }]));
    let body = put(&["--remove", "endpoint:POST /orders"]);
    assert_eq!(body["overrides"].as_array().unwrap().len(), 1);
}

#[test]
fn set_makes_a_tenant_only_if_there_is_none() {
    let node = node();
    let done = run(&node, &["quota", "set", "a/b \u{fc}", "--tier", "pro"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let asked = node.last();
    assert_eq!(asked.line, "PUT /admin/v1/quotas/a%2Fb%20%C3%BC");
    assert_eq!((asked.header("if-none-match"), asked.header("if-match")), (Some("*"), None));
    assert_eq!(asked.json(), json!({ "tier": "pro", "overrides": [] }));
}

#[test]
fn a_file_is_put_whole_and_may_be_what_get_printed() {
    let node = node();
    let done = run_with_input(&node, &["quota", "set", "acme", "-f", "-"], &acme().to_string());
    assert_eq!(done.code, 0, "{}", done.err);
    let body = node.last().json();
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["tier", "overrides"]);
    assert_eq!(body["overrides"][0].get("in_effect"), None);
    let done = run_with_input(&node, &["quota", "set", "acme", "-f", "-"], "tier: pro");
    assert!(done.code == 1 && done.err.contains("not JSON"), "{}", done.err);
}

#[test]
fn a_dry_run_and_a_command_line_that_says_nothing_change_nothing() {
    let node = node();
    let done = run(&node, &["quota", "set", "acme", "--tier", "free", "--dry-run"]);
    assert_eq!(serde_json::from_str::<Value>(&done.out).unwrap()["tier"], "free");
    for args in [
        &[][..],
        &["--burst", "5"],
        &["--descriptor", "x"],
        &["--requests", "5"],
        &["--expires-at", "30d"],
        &["--override", "x=5"],
        &["--override", "=5/day"],
        &["--override", "x=5/"],
        &["--tier", "a", "--no-tier"],
        &["--tier", "a", "-f", "x"],
        &["--requests", "-1", "--per", "day"],
    ] {
        let done = run(&node, &[&["quota", "set", "acme"], args].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}: {}", done.err);
    }
    assert!(node.asked().iter().all(|asked| asked.line.starts_with("GET ")));
    let done = run(&node, &["quota", "set", "acme", "--remove", "nothing"]);
    assert!(done.code == 1 && done.err.contains("no override of \"nothing\""), "{}", done.err);
}

#[test]
fn get_shows_people_columns_and_scripts_what_the_api_said() {
    let node = node();
    let shown = run(&node, &["quota", "get", "acme"]).out;
    for words in [
        "tenant    acme\n",
        "tier      pro\n",
        "2024-01-02 03:04:05Z (",
        "500/minute",
        "20/90s",
        "in effect",
        "unlimited",
    ] {
        assert!(shown.contains(words), "{words} in\n{shown}");
    }
    for flag in [&["-o", "json"][..], &["--json"]] {
        let said = run(&node, &[&["quota", "get", "acme"], flag].concat()).out;
        assert_eq!(said, format!("{}\n", acme()));
    }
}

#[test]
fn what_deletes_asks_and_where_nobody_can_be_asked_does_nothing() {
    let node = node();
    for args in [&["quota", "delete", "acme"][..], &["rules", "delete", "api"], &["token", "revoke", "00"]] {
        let done = run(&node, args);
        assert_eq!((done.code, node.asked().len()), (2, 0), "{}", done.err);
        assert!(done.err.contains("--yes"), "{}", done.err);
    }
    let done = run(&node, &["quota", "delete", "acme", "b/c", "--yes"]);
    assert_eq!((done.code, done.out.as_str()), (0, "acme: deleted\nb/c: deleted\n"));
    let lines: Vec<String> = node.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines, ["DELETE /admin/v1/quotas/acme", "DELETE /admin/v1/quotas/b%2Fc"]);
}

#[test]
fn usage_shows_each_limit_and_whose_view_it_is() {
    let node = Node::new(|_: &Asked| {
        Answer::ok(&json!({ "tenant": "acme", "scope": "node", "usage": [
            { "domain": "api", "rule": "per_key", "descriptor": "default", "name": "steady", "used": 480, "limit": 500,
              "remaining": 20, "window": { "start": "2024-01-01T00:00:00Z", "end": "2024-01-01T00:01:00Z" }, "from": "tier" },
        ] }))
    });
    let done = run(&node, &["usage", "acme", "--descriptor", "a:b&c"]);
    assert_eq!(node.last().line, "GET /admin/v1/usage/acme?descriptor=a%3Ab%26c");
    let rows: Vec<&str> = done.out.lines().collect();
    assert!(
        rows[0].starts_with("RULE     DESCRIPTOR  NAME    USED  LIMIT  REMAINING  WINDOW ENDS"),
        "{}",
        done.out
    );
    assert!(
        rows[1].starts_with("per_key  default     steady  480   500    20         2024-01-01 00:01:00Z ("),
        "{}",
        done.out
    );
    assert!(done.err.contains("this node alone"), "{}", done.err);
}

#[test]
fn reset_says_how_many_limits_are_given_back() {
    let node = Node::new(|_: &Asked| Answer::ok(&json!({ "reset": 2 })));
    let done = run(&node, &["reset", "acme"]);
    assert_eq!((done.code, done.out.as_str()), (0, "acme: 2 limits reset\n"));
    assert_eq!(node.last().line, "POST /admin/v1/usage/acme/reset");
}
