//! Contexts: names for nodes, and whose token goes where.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::node::{Answer, Asked, Node};
use super::{Run, command, finish, folder};

fn node() -> Node {
    Node::new(|_: &Asked| Answer::ok(&json!({ "all": "enforce", "rules": {} })))
}

/// Runs with these variables; the contexts are in the folder.
fn run(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = command(folder, args);
    command.envs(variables.iter().copied());
    finish(command)
}

fn done(folder: &Path, args: &[&str]) -> String {
    let run = run(folder, args, &[]);
    assert_eq!(run.code, 0, "{args:?}: {}", run.err);
    run.out
}

#[test]
fn contexts_are_set_listed_used_and_deleted() {
    let here = folder();
    let at = here.path();
    let none = run(at, &["context", "list"], &[]);
    assert!(none.code == 0 && none.out.is_empty() && none.err.contains("context set"), "{}", none.err);
    assert_eq!(run(at, &["context", "current"], &[]).code, 4);
    fs::write(at.join("prod.token"), "tg_prod").unwrap();
    let set =
        ["context", "set", "prod", "--admin", "https://tidegate.example:6070", "--token-file", "prod.token"];
    assert!(done(at, &set).starts_with("prod: https://tidegate.example:6070 ("));
    assert!(done(at, &["context", "set", "here", "--admin", "127.0.0.1:7000", "--use"]).contains("in use"));
    let file = at.join("config/tidegate/contexts.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&file).unwrap().contains("tg_prod"), "it holds no token");
    let listed = done(at, &["context", "list"]);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let token = at.join("prod.token").canonicalize().unwrap().display().to_string();
    assert_eq!(rows[1], ["*", "here", "http://127.0.0.1:7000", "-"]);
    assert_eq!(
        rows[2],
        ["-", "prod", "https://tidegate.example:6070", token.as_str()],
        "paths hold anywhere"
    );
    assert_eq!(done(at, &["context", "list", "-o", "name"]), "here\nprod\n");
    let all: Value = serde_json::from_str(&done(at, &["context", "list", "--json"])).unwrap();
    assert_eq!((&all["current"], &all["contexts"]["prod"]["token_file"]), (&json!("here"), &json!(token)));
    done(at, &["context", "use", "prod"]);
    assert_eq!(done(at, &["context", "current"]), "prod\n");
    // What is not given stays.
    done(at, &["context", "set", "prod", "--admin", "https://other.example"]);
    let all: Value = serde_json::from_str(&done(at, &["context", "list", "--json"])).unwrap();
    assert_eq!(all["contexts"]["prod"], json!({ "admin": "https://other.example", "token_file": token }));
    assert_eq!(run(at, &["context", "delete", "prod"], &[]).code, 2, "there is no terminal to ask on");
    done(at, &["context", "delete", "prod", "--yes"]);
    assert_eq!(run(at, &["context", "current"], &[]).code, 4);
    let gone = run(at, &["context", "use", "prod"], &[]);
    assert!(gone.code == 4 && gone.err.contains("known contexts: here"), "{}", gone.err);
    for wrong in [
        &["set", "a b", "--admin", "x:1"][..],
        &["set", "new"],
        &["set", "x", "--admin", "ftp://x"],
        &["use"],
    ] {
        assert_eq!(run(at, &[&["context"], wrong].concat(), &[]).code, 2, "{wrong:?}");
    }
    fs::write(&file, "{").unwrap();
    let broken = run(at, &["context", "list"], &[]);
    assert!(broken.code == 1 && broken.err.contains("contexts.json"), "{}", broken.err);
}

#[test]
fn the_node_is_the_flags_else_the_environments_else_that_of_the_context_in_use() {
    let nodes = ["current", "named", "variable", "flag"].map(|_| node());
    let urls = nodes.each_ref().map(|node| node.url.as_str());
    let [current, named, variable, flag] = urls;
    let here = folder();
    let at = here.path();
    for (name, url) in [("current", current), ("named", named)] {
        let file = at.join(name);
        fs::write(&file, format!("tg_{name}")).unwrap();
        done(at, &["context", "set", name, "--admin", url, "--token-file", file.to_str().unwrap()]);
    }
    done(at, &["context", "use", "current"]);
    // Which node is asked, and with which token.
    let asked = |args: &[&str], variables: &[(&str, &str)]| {
        let before = nodes.each_ref().map(|node| node.asked().len());
        let run = run(at, &[&["switch", "list"], args].concat(), variables);
        assert_eq!(run.code, 0, "{args:?} {variables:?}: {}", run.err);
        let index = nodes.iter().zip(before).position(|(node, before)| node.asked().len() > before);
        let node = &nodes[index.expect("one was asked")];
        (node.url.clone(), node.last().header("authorization").unwrap_or("none").to_owned())
    };
    let as_text = |(url, token): (String, String)| format!("{url} {token}");
    let token = ("TIDEGATE_TOKEN", "tg_variable");
    for (args, variables, expected) in [
        (&[][..], &[][..], format!("{current} Bearer tg_current")),
        (&[], &[("TIDEGATE_CONTEXT", "named")], format!("{named} Bearer tg_named")),
        (&[], &[token], format!("{current} Bearer tg_variable")),
        (&["--context", "named"], &[token, ("TIDEGATE_ADMIN", variable)], format!("{named} Bearer tg_named")),
        (&["--context", "named", "--token", "tg_flag"], &[], format!("{named} Bearer tg_flag")),
        // An address of its own: nobody's token but its own goes there.
        (&[], &[("TIDEGATE_ADMIN", variable), ("TIDEGATE_CONTEXT", "named")], format!("{variable} none")),
        (&["--admin", flag], &[("TIDEGATE_ADMIN", variable)], format!("{flag} none")),
        (&["--admin", flag], &[token], format!("{flag} Bearer tg_variable")),
    ] {
        assert_eq!(as_text(asked(args, variables)), expected, "{args:?} {variables:?}");
    }
    assert_eq!(run(at, &["switch", "list", "--context", "named", "--admin", flag], &[]).code, 2);
    assert_eq!(run(at, &["switch", "list", "--context", "gone"], &[]).code, 4);
    done(at, &["context", "use", "--none"]);
    assert_eq!(as_text(asked(&[], &[("TIDEGATE_ADMIN", variable)])), format!("{variable} none"));
}
