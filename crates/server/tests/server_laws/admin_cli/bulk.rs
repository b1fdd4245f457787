//! All tenants at once: export and import.

use std::fs;

use serde_json::{Value, json};

use super::node::{Answer, Asked, Node};
use super::{command, finish, folder, run, run_with_input};

/// A node with tenants `t0` to `t4` in pages of two, which takes nobody called `bad`.
fn node() -> Node {
    Node::new(|asked: &Asked| {
        if asked.line.starts_with("PUT") {
            if asked.line.ends_with("/bad") {
                let errors = json!([{ "field": "tier", "reason": "no rule has a tier \"gold\"" }]);
                let detail = "tier: no rule has a tier \"gold\"";
                return Answer::problem(
                    "422 Unprocessable Entity",
                    &json!({ "detail": detail, "errors": errors }),
                );
            }
            if asked.header("if-match") == Some("\"check-only\"") {
                return Answer::problem(
                    "412 Precondition Failed",
                    &json!({ "detail": "somebody changed it" }),
                );
            }
            if asked.line.ends_with("/raced") {
                return Answer::problem(
                    "412 Precondition Failed",
                    &json!({ "detail": "somebody changed it" }),
                );
            }
            return Answer::ok(&json!({}));
        }
        let from = asked
            .line
            .split_once("cursor=c")
            .map_or(0, |(_, number)| number.parse::<usize>().expect("cursors are numbers"));
        let item = |number: usize| {
            json!({
                "tenant": format!("t{number}"), "tier": "pro", "updated_at": "2024-01-01T00:00:00Z", "revision": number + 7,
                "overrides": [{ "descriptor": "default", "requests_per_unit": 5, "unit": "minute", "effective_at": null,
                                "expires_at": EXPIRES[number], "in_effect": number != 4, "ended": number == 4 }],
            })
        };
        let items: Vec<Value> = (from..5).take(2).map(item).collect();
        let next = (from + 2 < 5).then(|| format!("c{}", from + 2));
        Answer::ok(&json!({ "items": items, "next_cursor": next }))
    })
}

/// One has ended by this machine's clock, the last by the node's.
const EXPIRES: [Option<&str>; 5] =
    [None, None, None, Some("2020-01-01T00:00:00Z"), Some("2999-01-01T00:00:00Z")];

#[test]
fn an_export_has_a_line_for_every_tenant_of_every_page() {
    let (node, here) = (node(), folder());
    let done = run(&node, &["quota", "export", "--tier", "pro"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(node.asked()[0].line, "GET /admin/v1/quotas?tier=pro&limit=1000");
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 5);
    let default = "{\"descriptor\":\"default\",\"requests_per_unit\":5,\"unit\":\"minute\"}";
    assert_eq!(lines[0], format!("{{\"tenant\":\"t0\",\"tier\":\"pro\",\"overrides\":[{default}]}}"));
    assert!(lines[4].contains("2999") && !lines[4].contains("ended"), "{}", lines[4]);
    // By what the node says: its clock and this machine's need not agree.
    let without = run(&node, &["quota", "export", "--without-ended"]).out;
    assert!(without.contains("2020") && !without.contains("2999"), "{without}");
    assert_eq!(without.lines().count(), 5);

    let export = |url: &str| {
        let mut command = command(here.path(), &["quota", "export", "-f", "tenants.jsonl", "--admin", url]);
        command.env("TIDEGATE_TOKEN", "tg_test");
        finish(command)
    };
    assert_eq!(export(&node.url).err, "tenants.jsonl: 5 tenants\n");
    let written = fs::read_to_string(here.path().join("tenants.jsonl")).unwrap();
    assert_eq!(written, done.out);
    // It breaks off in the middle: the file stays as it was, and no half one is left.
    let broken = Node::new(|asked: &Asked| {
        if asked.line.contains("cursor") {
            return Answer::problem("503 Service Unavailable", &json!({ "detail": "away" }));
        }
        Answer::ok(
            &json!({ "items": [{ "tenant": "x", "tier": null, "overrides": [] }], "next_cursor": "c1" }),
        )
    });
    assert_eq!(export(&broken.url).code, 6);
    assert_eq!(fs::read_to_string(here.path().join("tenants.jsonl")).unwrap(), written);
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
}

#[test]
fn an_import_checks_every_line_before_it_changes_the_first() {
    let node = node();
    let file = "{\"tenant\":\"new\"}\n{\"tenant\":\"bad\",\"tier\":\"gold\"}\n";
    let done = run_with_input(&node, &["quota", "import", "-"], file);
    assert_eq!((done.code, done.out.as_str()), (3, ""));
    assert_eq!(done.err, "error: -:2: tier: no rule has a tier \"gold\"\n");
    let puts = |node: &Node| {
        node.asked().into_iter().filter(|asked| asked.line.starts_with("PUT")).collect::<Vec<_>>()
    };
    assert!(puts(&node).iter().all(|put| put.header("if-match") == Some("\"check-only\"")));
    // What is no line at all is told without asking anybody.
    let asked = node.asked().len();
    let done = run_with_input(
        &node,
        &["quota", "import", "-", "--json"],
        "{\n{\"tenant\":\"a\"}\n{\"tenant\":\"a\"}\n",
    );
    assert_eq!((done.code, node.asked().len()), (3, asked));
    let said: Value = serde_json::from_str(&done.err).unwrap();
    let messages: Vec<&str> = said["error"]["failures"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["message"].as_str())
        .collect();
    assert!(
        messages[0].starts_with("-:1: is not JSON") && messages[1].starts_with("-:3: tenant \"a\""),
        "{messages:?}"
    );
}

#[test]
fn an_import_changes_what_differs_and_nothing_else() {
    let node = node();
    let exported = run(&node, &["quota", "export"]).out;
    let changed = exported.replacen("\"requests_per_unit\":5", "\"requests_per_unit\":6", 1)
        + "\n{\"tenant\":\"new/one\",\"tier\":\"pro\"}\n";
    let tried = run_with_input(&node, &["quota", "import", "-", "--dry-run"], &changed);
    assert_eq!(
        tried.out, "nothing was changed (dry run): 1 created, 1 changed, 4 unchanged\n",
        "{}",
        tried.err
    );
    let before = node.asked().len();
    let done = run_with_input(&node, &["quota", "import", "-", "--json"], &changed);
    let summary: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(summary, json!({ "created": 1, "changed": 1, "unchanged": 4, "dry_run": false }));
    let conditions: Vec<(String, String)> = node.asked()[before..]
        .iter()
        .filter(|asked| asked.line.starts_with("PUT"))
        .filter(|asked| asked.header("if-match") != Some("\"check-only\""))
        .map(|asked| {
            let condition = asked.header("if-match").or(asked.header("if-none-match")).unwrap_or_default();
            (asked.line.clone(), condition.to_owned())
        })
        .collect();
    let expected = [("PUT /admin/v1/quotas/t0", "\"7\""), ("PUT /admin/v1/quotas/new%2Fone", "*")];
    assert_eq!(conditions, expected.map(|(line, condition)| (line.to_owned(), condition.to_owned())));
    assert_eq!(node.last().json(), json!({ "tier": "pro", "overrides": [] }));
    let again = run_with_input(&node, &["quota", "import", "-"], &exported);
    assert_eq!(again.out, "0 created, 0 changed, 5 unchanged\n");
    let raced =
        run_with_input(&node, &["quota", "import", "-"], "{\"tenant\":\"raced\"}\n{\"tenant\":\"fine\"}\n");
    assert_eq!(raced.code, 5);
    assert!(raced.err.starts_with("error: -:1: somebody changed it"), "{}", raced.err);
    assert_eq!(node.last().line, "PUT /admin/v1/quotas/fine", "the others are imported all the same");
}

#[test]
fn several_are_deleted_whatever_is_wrong_with_one() {
    let node = Node::new(|asked: &Asked| {
        if asked.line.ends_with("/gone") {
            return Answer::problem("404 Not Found", &json!({ "detail": "there is no such tenant" }));
        }
        Answer("204 No Content", "", String::new())
    });
    let done = run(&node, &["quota", "delete", "a", "gone", "b", "--yes"]);
    assert_eq!((done.code, done.out.as_str()), (4, "a: deleted\nb: deleted\n"));
    assert_eq!(done.err, "error: gone: there is no such tenant\n");
}
