//! The admin API and the decision API keep to their own documents, whatever they are sent.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use super::start;
use crate::support::envoy::workspace;
use crate::support::service::get;

fn schemathesis() -> PathBuf {
    let ours = workspace().join(".tools/schemathesis/bin/schemathesis");
    if ours.exists() {
        return ours;
    }
    let found = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path).map(|folder| folder.join("schemathesis")).find(|file| file.exists())
    });
    found.expect("schemathesis is missing: `make test-tools` installs it (PyPI: schemathesis)")
}

/// Sends whatever the document at an address says, and what it forbids, and holds the answers to it; but to those that
/// never end.
fn keeps_to_its_document(at: SocketAddr, headers: &[String], endless: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let mut command = Command::new(schemathesis());
    command.args(["run", &format!("http://{at}/openapi.json")]);
    for header in headers {
        command.args(["--header", header]);
    }
    for path in endless {
        command.args(["--exclude-path", path]);
    }
    let output = command
        // What is well-formed may still make no sense: an override of a rule that there is not.
        .args(["--checks", "all", "--exclude-checks", "positive_data_acceptance,unsupported_method"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--seed", "1"])
        .args(["--suppress-health-check", "all", "--generation-database", "none", "--no-color"])
        .args(["--request-timeout", "30", "--continue-on-failure"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    fs::write(&report, &said).expect("a file");
    assert!(output.status.success(), "{said}");
    let tested = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("Tested: "))
        .and_then(|count| count.parse::<usize>().ok());
    let document = get(at, "/openapi.json").json();
    let methods = |item: &serde_json::Value| item.as_object().map_or(0, serde_json::Map::len);
    let operations: usize = document["paths"].as_object().expect("paths").values().map(methods).sum();
    assert_eq!(tested, Some(operations - endless.len()), "{said}");
}

#[test]
fn the_admin_api_keeps_to_its_document() {
    let service = start();
    // A response without end is no response to wait for; `recorder::live` has its laws.
    let endless = ["/admin/v1/live"];
    keeps_to_its_document(service.admin, &[format!("Authorization: Bearer {}", service.token())], &endless);
}

#[test]
fn the_decision_api_keeps_to_its_document() {
    let service = start();
    keeps_to_its_document(service.http, &[], &[]);
}

#[test]
fn the_document_of_the_decision_api_has_every_path() {
    let service = start();
    let document = get(service.http, "/openapi.json").json();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let none = get(service.http, "/none").json();
    let listed = none["detail"].as_str().expect("a detail").to_owned();
    let listed = listed.split_once("available: ").expect("the paths").1;
    let mut method = "";
    for word in listed.split([' ', ',', ';']).filter(|word| !word.is_empty()) {
        if let Some(path) = word.strip_prefix('/').filter(|path| *path != "openapi.json") {
            let operation = &document["paths"][format!("/{path}")][method];
            assert!(operation["operationId"].is_string(), "{method} /{path} is not in the document");
        } else {
            method = if word == "POST" { "post" } else { "get" };
        }
    }
}
