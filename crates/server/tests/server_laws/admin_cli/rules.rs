//! `rules` and `switch`.

use std::fs;

use serde_json::json;

use super::node::{Answer, Asked, Node};
use super::{Run, command, finish, folder, run, run_with_input};

const RULES: &str = "domain: api # ours\ndescriptors: []\n";

fn node() -> Node {
    Node::new(|asked: &Asked| {
        if asked.line.contains("/versions") {
            let versions = json!([
                { "version": 3, "author": "ann", "comment": "", "created_at": "2024-01-03T00:00:00Z", "deleted": false, "rolled_back_to": 1 },
                { "version": 2, "author": "bob", "comment": "search\u{1b}[31m", "created_at": "2024-01-02T00:00:00Z", "deleted": true },
                { "version": 1, "author": "ann", "comment": "first", "created_at": "2024-01-01T00:00:00Z", "deleted": false },
            ]);
            return Answer::ok(&json!({ "items": versions, "next_cursor": null }));
        }
        if asked.line.starts_with("GET") && asked.line.contains("/diff") {
            return Answer::ok(&"--- api 1\n+++ api\n@@ -1 +1 @@\n-a\n+\tb\n");
        }
        if asked.line.starts_with("GET") {
            return Answer::ok(&RULES);
        }
        Answer::ok(&json!({
            "domain": "api", "version": 4, "diff": "--- api 3\n+++ api\n@@ -1 +1 @@\n-a\n+b\n", "added": ["x", "y"],
            "removed": [], "changed": ["z"], "warnings": ["z never denies"], "dry_run": asked.line.contains("dry_run"),
        }))
    })
}

#[test]
fn push_sends_the_file_as_it_is_and_tells_what_changed() {
    let (node, here) = (node(), folder());
    fs::write(here.path().join("api.yaml"), RULES).unwrap();
    let mut push =
        command(here.path(), &["rules", "push", "-f", "api.yaml", "-m", "twice & more", "--if-version", "3"]);
    push.env("TIDEGATE_ADMIN", &node.url);
    let done = finish(push);
    assert_eq!(done.code, 0, "{}", done.err);
    let asked = node.last();
    assert_eq!(asked.line, "PUT /admin/v1/rules/api?comment=twice%20%26%20more");
    assert_eq!(
        (asked.header("content-type"), asked.header("if-match")),
        (Some("application/yaml"), Some("\"3\""))
    );
    assert_eq!(asked.body, RULES.as_bytes());
    assert!(done.out.starts_with("--- api 3\n+++ api\n"), "{}", done.out);
    assert!(done.out.ends_with("api: version 4; 2 rules added, 1 rule changed\n"), "{}", done.out);
    assert_eq!(done.err, "warning: z never denies\n");
}

#[test]
fn a_dry_run_and_a_diff_store_nothing() {
    let node = node();
    let done = run_with_input(&node, &["rules", "push", "-f", "-", "--dry-run"], RULES);
    assert_eq!(node.last().line, "PUT /admin/v1/rules/api?dry_run=true");
    assert!(
        done.out.ends_with("api: nothing was changed (dry run); 2 rules added, 1 rule changed\n"),
        "{}",
        done.out
    );
    let done = run_with_input(&node, &["rules", "diff", "-f", "-"], RULES);
    assert_eq!(node.last().line, "PUT /admin/v1/rules/api?dry_run=true");
    assert_eq!((done.code, done.out.as_str()), (0, "--- api 3\n+++ api\n@@ -1 +1 @@\n-a\n+b\n"));
    let done = run(&node, &["rules", "diff", "api", "--from", "1", "--to", "2"]);
    assert_eq!(node.last().line, "GET /admin/v1/rules/api/diff?from=1&to=2");
    assert_eq!(done.out, "--- api 1\n+++ api\n@@ -1 +1 @@\n-a\n+\tb\n");
}

#[test]
fn a_file_without_a_domain_is_told() {
    let node = node();
    let done = run_with_input(&node, &["rules", "push", "-f", "-"], "descriptors: []\n");
    assert_eq!((done.code, node.asked().len()), (1, 0));
    assert!(done.err.contains("names no domain"), "{}", done.err);
    assert_eq!(
        run_with_input(&node, &["rules", "push", "-f", "-", "--domain", "a/b"], "descriptors: []\n").code,
        0
    );
    assert_eq!(node.last().line, "PUT /admin/v1/rules/a%2Fb");
}

#[test]
fn history_shows_versions_and_rollback_goes_back() {
    let node = node();
    let shown = run(&node, &["rules", "history", "api", "--no-headers"]).out;
    let rows: Vec<&str> = shown.lines().collect();
    assert!(
        rows[0].starts_with("3  2024-01-03 00:00:00Z (") && rows[0].ends_with("  ann  back to 1  -"),
        "{shown}"
    );
    assert!(rows[1].ends_with("  bob  deleted    search\\u{1b}[31m"), "{shown}");
    assert!(rows[2].ends_with("  ann  pushed     first"), "{shown}");
    let done = run(&node, &["rules", "rollback", "api", "1", "-m", "why"]);
    assert_eq!((done.code, node.last().line.as_str()), (0, "POST /admin/v1/rules/api/rollback"));
    assert_eq!(node.last().json(), json!({ "version": 1, "comment": "why" }));
    assert_eq!(run(&node, &["rules", "show", "api", "--version", "2"]).out, RULES);
    assert_eq!(node.last().line, "GET /admin/v1/rules/api?version=2");
}

#[test]
fn switches_are_listed_and_set() {
    let node = Node::new(|_: &Asked| {
        Answer::ok(
            &json!({ "all": "enforce", "rules": { "per_user": "shadow" }, "from": { "per_user": "node" }, "rule": "*", "mode": "off" }),
        )
    });
    assert_eq!(
        run(&node, &["switch", "list"]).out,
        "RULE      MODE     FROM\n*         enforce  -\nper_user  shadow   node\n"
    );
    let done = run(&node, &["switch", "set", "*", "off"]);
    assert_eq!((done.code, done.out.as_str()), (0, "*: off\n"));
    assert_eq!(
        (node.last().line.as_str(), node.last().json()),
        ("PUT /admin/v1/switches/%2A", json!({ "mode": "off" }))
    );
    run(&node, &["switch", "set", "*", "off", "--local"]);
    assert_eq!(node.last().line, "PUT /admin/v1/switches/%2A?local=true");
    assert_eq!(run(&node, &["switch", "unset", "*"]).out, "*: not set\n");
    assert_eq!(node.last().line, "DELETE /admin/v1/switches/%2A");
    run(&node, &["switch", "unset", "per_user", "--local"]);
    assert_eq!(node.last().line, "DELETE /admin/v1/switches/per_user?local=true");
    assert_eq!(run(&node, &["switch", "set", "*", "loud"]).code, 2);
}

#[test]
fn while_the_catalog_is_away_whoever_throws_a_switch_is_told_of_the_nodes_own() {
    let away = Node::new(|_: &Asked| {
        Answer::problem("503 Service Unavailable", &json!({ "detail": "the catalog is away" }))
    });
    for words in [&["switch", "set", "*", "off"][..], &["switch", "unset", "*"]] {
        let done = run(&away, words);
        assert_eq!(done.code, 6);
        assert_eq!(
            done.err,
            "error: the catalog is away\nhint: try again, or act on this node alone with --local\n"
        );
    }
}

/// Takes everything but the domains `bad`, whose rules have mistakes, and `late`, which is away when it is put.
fn picky() -> Node {
    Node::new(|asked: &Asked| {
        let dry_run = asked.line.contains("dry_run=true");
        if asked.line.contains("/rules/bad") {
            let errors = json!([
                { "field": "descriptors[0].rate_limits", "line": 2, "column": 28, "reason": "unknown field" },
                { "field": "domain", "reason": "must be another" },
            ]);
            return Answer::problem(
                "422 Unprocessable Entity",
                &json!({ "detail": "2 fields are wrong", "errors": errors }),
            );
        }
        if asked.line.contains("/rules/mine") {
            return Answer::problem(
                "409 Conflict",
                &json!({ "detail": "domain \"mine\" belongs to a file" }),
            );
        }
        if asked.line.contains("/rules/late") && !dry_run {
            return Answer::problem(
                "503 Service Unavailable",
                &json!({ "detail": "the catalog does not answer" }),
            );
        }
        let domain = asked.line.split(['/', '?']).nth(4).unwrap_or_default().to_owned();
        Answer::ok(&json!({ "domain": domain, "version": 1, "diff": "", "added": ["x"], "dry_run": dry_run }))
    })
}

/// Pushes files for these domains.
fn push(node: &Node, domains: &[&str], flags: &[&str]) -> Run {
    let here = folder();
    let files: Vec<String> =
        domains.iter().enumerate().map(|(index, domain)| format!("{index}-{domain}.yaml")).collect();
    for (file, domain) in files.iter().zip(domains) {
        fs::write(here.path().join(file), format!("domain: {domain}\n")).expect("the folder is ours");
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let mut command = command(here.path(), &[&["rules", "push"], &files[..], flags].concat());
    command.env("TIDEGATE_ADMIN", &node.url);
    finish(command)
}

/// What was put, and not only checked.
fn put(node: &Node) -> Vec<String> {
    let asked = node.asked().into_iter().map(|asked| asked.line);
    asked.filter(|line| !line.contains("dry_run")).collect()
}

#[test]
fn several_files_are_all_checked_before_the_first_is_put_in_force() {
    let node = picky();
    let done = push(&node, &["good", "bad", "mine"], &[]);
    assert_eq!((done.code, done.out.as_str()), (3, ""));
    assert_eq!(
        done.err,
        "error: 1-bad.yaml:2:28: descriptors[0].rate_limits: unknown field\n\
         error: 1-bad.yaml: domain: must be another\n\
         error: 2-mine.yaml: domain \"mine\" belongs to a file\n"
    );
    assert_eq!(put(&node), [""; 0], "nothing is in force");
    let done = push(&node, &["good", "better"], &[]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(put(&node), ["PUT /admin/v1/rules/good", "PUT /admin/v1/rules/better"]);
    assert_eq!(done.out, "good: version 1; 1 rule added\nbetter: version 1; 1 rule added\n");
    let done = push(&node, &["good", "better"], &["--json"]);
    let all: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&all[0]["domain"], &all[1]["domain"]), (&json!("good"), &json!("better")));
    let twice = push(&node, &["good", "good"], &[]);
    assert!(twice.code == 2 && twice.err.contains("0-good.yaml and 1-good.yaml"), "{}", twice.err);
}

#[test]
fn a_push_that_fails_on_the_way_tells_what_is_in_force() {
    let node = picky();
    let done = push(&node, &["good", "late", "better"], &[]);
    assert_eq!(done.code, 6);
    assert!(done.out.contains("good: version 1"), "{}", done.out);
    assert!(
        done.err.starts_with("in force: good; maybe in force: late; not put: better\nerror: "),
        "{}",
        done.err
    );
    assert!(done.err.contains("1-late.yaml: the catalog does not answer"), "{}", done.err);
    assert_eq!(put(&node), ["PUT /admin/v1/rules/good", "PUT /admin/v1/rules/late"]);
    let one = push(&picky(), &["bad"], &["--json"]);
    let said: serde_json::Value = serde_json::from_str(&one.err).unwrap();
    assert_eq!((&said["error"]["file"], &said["error"]["kind"]), (&json!("0-bad.yaml"), &json!("refused")));
}
