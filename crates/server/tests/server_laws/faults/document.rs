//! What is written about faults names the tests that prove it.

use std::collections::BTreeSet;
use std::fs;

use crate::support::envoy::workspace;

/// The names of tests in a source.
fn tests_of(source: &str) -> impl Iterator<Item = &str> {
    let after = source.split("#[test]\nfn ").skip(1);
    after.filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
}

#[test]
fn every_line_of_failure_modes_md_names_its_test_and_every_test_has_a_line() {
    let folder = workspace().join("crates/server/tests/server_laws/faults");
    let mut tests = BTreeSet::new();
    for file in fs::read_dir(&folder).expect("a folder").flatten() {
        let name = file.file_name();
        if name != "document.rs" {
            let source = fs::read_to_string(file.path()).expect("a source");
            tests.extend(tests_of(&source).map(str::to_owned));
        }
    }
    let document = fs::read_to_string(workspace().join("docs/failure-modes.md")).expect("the document");
    let mut told = BTreeSet::new();
    let from_table = document.lines().skip_while(|line| !line.starts_with("| what breaks"));
    for line in from_table.skip(2).take_while(|line| line.starts_with('|')) {
        let proof = line.trim_end_matches([' ', '|']).rsplit_once("| ").expect("a last cell").1;
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "names no test: {line}");
        told.extend(names.into_iter().map(str::to_owned));
    }
    let unproved: Vec<&String> = told.difference(&tests).collect();
    assert!(unproved.is_empty(), "no such tests: {unproved:?}");
    let untold: Vec<&String> = tests.difference(&told).collect();
    assert!(untold.is_empty(), "no line tells of {untold:?}");
}
