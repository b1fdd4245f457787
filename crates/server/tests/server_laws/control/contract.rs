//! The admin API keeps to its own document, whatever it is sent.

use std::fs;
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

#[test]
fn the_admin_api_keeps_to_its_document() {
    let service = start();
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let output = Command::new(schemathesis())
        .args(["run", &format!("http://{}/openapi.json", service.admin)])
        .args(["--header", &format!("Authorization: Bearer {}", service.token())])
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
    let document = get(service.admin, "/openapi.json").json();
    let methods = |item: &serde_json::Value| item.as_object().map_or(0, serde_json::Map::len);
    let operations: usize = document["paths"].as_object().expect("paths").values().map(methods).sum();
    assert_eq!(tested, Some(operations), "{said}");
}
