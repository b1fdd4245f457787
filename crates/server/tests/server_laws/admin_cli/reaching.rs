//! How a node is found, trusted and asked.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use super::node::{Answer, Asked, Node, exchange};
use super::{command, finish, folder, run};

fn no_switches(_: &Asked) -> Answer {
    Answer::ok(&json!({ "all": "enforce", "rules": {} }))
}

const LIST: [&str; 2] = ["switch", "list"];

/// The token that a run sends, by its arguments and environment.
fn sent(args: &[&str], environment: &[(&str, &str)], own: Option<&str>) -> Option<String> {
    let node = Node::new(no_switches);
    let here = folder();
    fs::write(here.path().join("token"), "tg_file\n").expect("a file");
    if let Some(token) = own {
        fs::create_dir(here.path().join("data")).expect("a folder");
        fs::write(here.path().join("data/admin-token"), token).expect("a file");
        fs::write(here.path().join("tidegate.yaml"), "data: data\n").expect("a file");
    }
    let mut command = command(here.path(), &[&LIST, args].concat());
    command.envs(environment.iter().copied()).env("TIDEGATE_ADMIN", &node.url);
    let done = finish(command);
    assert_eq!(done.code, 0, "{}", done.err);
    node.last().header("authorization").map(str::to_owned)
}

#[test]
fn the_token_is_the_flags_else_the_environments_else_the_nodes_own() {
    let environment = [("TIDEGATE_TOKEN", "tg_variable"), ("TIDEGATE_TOKEN_FILE", "token")];
    let own = Some("tg_own\n");
    let token = |args, environment, own| sent(args, environment, own).unwrap_or_default();
    assert_eq!(token(&["--token", "tg_flag"], &environment, own), "Bearer tg_flag");
    assert_eq!(token(&["--token-file", "token"], &environment[..1], own), "Bearer tg_file");
    assert_eq!(token(&[], &environment, own), "Bearer tg_variable");
    assert_eq!(token(&[], &environment[1..], own), "Bearer tg_file");
    assert_eq!(token(&[], &[], own), "Bearer tg_own");
    assert_eq!(sent(&[], &[], None), None);
}

#[test]
fn what_is_no_token_is_refused_without_showing_it() {
    let here = folder();
    fs::write(here.path().join("token"), "two words").unwrap();
    let done = finish(command(here.path(), &["switch", "list", "--token-file", "token"]));
    assert_eq!(done.code, 1);
    assert!(done.err.contains("token has no token in it") && !done.err.contains("words"), "{}", done.err);
    let done = finish(command(here.path(), &["switch", "list", "--token-file", "nowhere"]));
    assert!(done.err.starts_with("error: cannot read the token in nowhere"), "{}", done.err);
}

#[test]
fn the_variables_of_the_client_are_no_settings() {
    let here = folder();
    let mut command = command(here.path(), &["config"]);
    for name in ["ADMIN", "CONTEXT", "TOKEN", "TOKEN_FILE", "CA", "CERT", "KEY"] {
        command.env(format!("TIDEGATE_{name}"), "x");
    }
    let done = finish(command);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
}

#[test]
fn refusals_say_which_fields_are_wrong_and_what_to_do() {
    let refused = |status, body| {
        let node = Node::new(move |_: &Asked| Answer::problem(status, &body));
        let done = run(&node, &["quota", "get", "acme"]);
        assert!(done.code > 2 && done.out.is_empty(), "{} {}", done.code, done.out);
        done.err
    };
    let errors = json!([
        { "field": "overrides[0].burst", "reason": "must be at least 1" },
        { "field": "tier", "reason": "no rule has it" },
    ]);
    let said = refused(
        "422 Unprocessable Entity",
        json!({ "title": "x", "detail": "2 fields are wrong", "errors": errors }),
    );
    assert_eq!(
        said,
        "error: 2 fields are wrong\n  overrides[0].burst: must be at least 1\n  tier: no rule has it\n"
    );
    let one = json!([{ "field": "tier", "reason": "no rule has it" }]);
    let said =
        refused("422 Unprocessable Entity", json!({ "detail": "tier: no rule has it", "errors": one }));
    assert_eq!(said, "error: tier: no rule has it\n");
    for (status, hint) in [
        ("401 Unauthorized", "TIDEGATE_TOKEN"),
        ("403 Forbidden", "tidegate token create"),
        ("412 Precondition Failed", "run the command again"),
        ("503 Service Unavailable", "try again"),
    ] {
        let said = refused(status, json!({ "title": status, "status": 0, "detail": "so it is" }));
        assert!(said.starts_with("error: so it is\nhint: ") && said.contains(hint), "{said}");
    }
}

#[test]
fn an_answer_that_makes_no_sense_is_told_and_does_nothing_to_the_terminal() {
    let node = Node::new(|_: &Asked| Answer("502 Bad Gateway", "", "\u{1b}[2Jlost".to_owned()));
    let done = run(&node, &["token", "list"]);
    assert_eq!(done.code, 6);
    assert_eq!(
        done.err,
        format!("error: {}/admin/v1/tokens answered 502 Bad Gateway: \\u{{1b}}[2Jlost\n", node.url)
    );
    let node = Node::new(|_: &Asked| Answer::ok(&"<html>"));
    let done = run(&node, &["token", "list"]);
    assert!(done.code == 1 && done.err.contains("is not JSON"), "{}", done.err);
}

#[test]
fn a_node_that_is_not_there_is_told_and_an_address_that_is_none_is_usage() {
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let here = folder();
    let done = finish(command(here.path(), &["token", "list", "--admin", &format!("http://{free}")]));
    assert_eq!(done.code, 6);
    assert!(done.err.starts_with(&format!("error: cannot reach {free}: ")), "{}", done.err);
    let done = finish(command(here.path(), &["token", "list", "--admin", &free.to_string()]));
    assert_eq!(done.code, 6, "a scheme is not needed: {}", done.err);
    let done = finish(command(here.path(), &["token", "list", "--admin", "ftp://127.0.0.1"]));
    assert_eq!(done.code, 2);
    assert!(done.err.contains("http://127.0.0.1:6070"), "{}", done.err);
    let mut by_variable = command(here.path(), &["token", "list"]);
    by_variable.env("TIDEGATE_ADMIN", "ftp://127.0.0.1");
    let done = finish(by_variable);
    assert_eq!(done.code, 2);
    assert!(done.err.starts_with("error: TIDEGATE_ADMIN: must be an address"), "{}", done.err);
}

#[test]
fn tls_is_trusted_by_the_authority_that_is_given_and_by_no_other() {
    let here = folder();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    fs::write(here.path().join("ca.pem"), authority.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap()];
    let private = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            exchange(rustls::StreamOwned::new(connection, stream), no_switches);
        }
    });
    let trusted = finish(command(here.path(), &["switch", "list", "--admin", &url, "--ca", "ca.pem"]));
    assert_eq!(
        (trusted.code, trusted.out.as_str()),
        (0, "RULE  MODE     FROM\n*     enforce  -\n"),
        "{}",
        trusted.err
    );
    let stranger = finish(command(here.path(), &["switch", "list", "--admin", &url]));
    assert_eq!(stranger.code, 1);
    assert!(stranger.err.contains("--ca"), "{}", stranger.err);
}

#[test]
fn every_command_explains_itself_with_examples_and_is_completed_by_the_shell() {
    let here = folder();
    let script = finish(command(here.path(), &["completions", "bash"])).out;
    for (command_name, parts) in [
        ("quota", &["list", "get", "set", "delete", "export", "import"][..]),
        ("usage", &[]),
        ("reset", &[]),
        ("rules", &["list", "show", "push", "diff", "history", "rollback", "delete"]),
        ("switch", &["list", "get", "set"]),
        ("token", &["create", "list", "revoke", "generate"]),
        ("audit", &["list", "verify"]),
        ("context", &["list", "current", "use", "set", "delete"]),
    ] {
        let help = finish(command(here.path(), &[command_name, "--help"]));
        assert!(
            help.code == 0 && help.out.contains("Examples:") && help.out.contains("Exit codes:"),
            "{}",
            help.out
        );
        for part in parts {
            let help = finish(command(here.path(), &[command_name, part, "--help"]));
            assert!(help.code == 0 && help.out.contains("Examples:"), "{command_name} {part}\n{}", help.out);
            assert!(
                script.contains(&format!("tidegate__subcmd__{command_name}__subcmd__{part}")),
                "{command_name} {part}"
            );
        }
    }
}

#[test]
fn exit_codes_tell_refused_not_found_conflict_and_unreachable_apart() {
    for (status, code, kind) in [
        ("400 Bad Request", 3, "refused"),
        ("401 Unauthorized", 3, "refused"),
        ("403 Forbidden", 3, "refused"),
        ("422 Unprocessable Entity", 3, "refused"),
        ("404 Not Found", 4, "not_found"),
        ("409 Conflict", 5, "conflict"),
        ("412 Precondition Failed", 5, "conflict"),
        ("503 Service Unavailable", 6, "unreachable"),
        ("500 Internal Server Error", 1, "failed"),
    ] {
        let problem =
            json!({ "title": status, "detail": "so it is", "errors": [{ "field": "f", "reason": "r" }] });
        let node = Node::new(move |_: &Asked| Answer::problem(status, &problem));
        assert_eq!(run(&node, &["quota", "get", "acme"]).code, code, "{status}");
        for json_flag in [&["--json"][..], &["-o", "json"], &["-ojson"], &["--output=json"]] {
            let done = run(&node, &[&["quota", "get", "acme"], json_flag].concat());
            assert_eq!((done.code, done.out.as_str()), (code, ""), "{status}");
            let said: Value = serde_json::from_str(&done.err).unwrap_or_else(|_| panic!("{}", done.err));
            let error = &said["error"];
            assert_eq!((&error["kind"], &error["exit_code"]), (&json!(kind), &json!(code)), "{said}");
            assert_eq!((&error["message"], &error["errors"][0]["field"]), (&json!("so it is"), &json!("f")));
            assert_eq!(
                error["status"].as_u64().map(|status| status.to_string()).as_deref(),
                status.split(' ').next()
            );
        }
    }
}

#[test]
fn whatever_goes_wrong_is_json_for_those_who_asked_for_it() {
    let here = folder();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    fs::write(here.path().join("bad.yaml"), "worker: 1").unwrap();
    for (args, code, kind) in [
        (&["quota", "list", "--json", "--admin", &free][..], 6, "unreachable"),
        (&["quota", "list", "--json", "--nonsense"], 2, "usage"),
        (&["quota", "get", "--json"], 2, "usage"),
        (&["quota", "list", "--json", "--context", "gone"], 4, "not_found"),
        (&["config", "--json", "--config", "bad.yaml"], 1, "failed"),
        (&["explain", "--live", "--json", "--admin", &free, "--domain", "d", "a=b"], 6, "unreachable"),
    ] {
        let done = finish(command(here.path(), args));
        assert_eq!((done.code, done.out.as_str()), (code, ""), "{args:?}: {}", done.err);
        let said: Value =
            serde_json::from_str(&done.err).unwrap_or_else(|_| panic!("{args:?}: {}", done.err));
        let error = &said["error"];
        assert_eq!((&error["kind"], &error["exit_code"]), (&json!(kind), &json!(code)), "{args:?}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{said}");
    }
    let help = finish(command(here.path(), &["quota", "list", "--json", "--help"]));
    assert!(help.code == 0 && help.out.contains("Usage:"), "help is for people");
}
