//! Bytes, line ends and characters that editors and accidents put into a file.

#![expect(clippy::unwrap_used, reason = "clippy does not know the helpers of tests for tests")]

use std::fs;
use std::path::Path;

use tempfile::tempdir;
use tidegate::Defaults;
use tidegate::rules::file::load_path;

use super::{load, problems};

const RULES: &str =
    "domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: day\n      requests_per_unit: 5\n";

fn problem_of_bytes(bytes: &[u8]) -> String {
    let folder = tempdir().unwrap();
    let path = folder.path().join("r.yaml");
    fs::write(&path, bytes).unwrap();
    let problems = load_path(&path, &Defaults::default()).unwrap_err();
    problems.to_string().replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
}

#[test]
fn line_ends_and_a_byte_order_mark_change_nothing() {
    let expected = load(RULES).unwrap();
    assert_eq!(load(&RULES.replace('\n', "\r\n")).unwrap(), expected);
    assert_eq!(load(&RULES.replace('\n', "\r")).unwrap(), expected);
    assert_eq!(load(&format!("\u{feff}{RULES}")).unwrap(), expected);
    assert_eq!(load(&format!("---\n{RULES}...\n")).unwrap(), expected);
    assert_eq!(load(&format!("%YAML 1.1\n---\n{RULES}")).unwrap(), expected);
}

#[test]
fn places_are_the_same_with_every_line_end_and_a_byte_order_mark() {
    let rules = RULES.replace("day", "dey");
    let expected = [
        "r.yaml:5:13: descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, week, month, year, got \"dey\"; did you mean day?",
    ];
    assert_eq!(problems(&rules), expected);
    assert_eq!(problems(&rules.replace('\n', "\r\n")), expected);
    assert_eq!(problems(&format!("\u{feff}{rules}")), expected);
    assert_eq!(
        problems("\u{feff}dommain: d")[0],
        "r.yaml:1:1: dommain: unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, inline_limits, forward_auth; did you mean domain?"
    );
}

#[test]
fn columns_count_characters() {
    let found = problems("domain: d\ndescriptors: [{key: éü日, valeu: x}]");
    assert!(found[0].starts_with("r.yaml:2:26: descriptors[0].valeu: unknown field; "), "{found:?}");
}

#[test]
fn a_file_without_content_says_how_to_begin() {
    for text in ["", "\n\n", "# nothing\n", "\u{feff}", " "] {
        assert_eq!(problems(text), ["r.yaml: the file is empty; begin with `domain: NAME`"], "{text:?}");
    }
    assert_eq!(problem_of_bytes(b""), "r.yaml: the file is empty; begin with `domain: NAME`");
}

#[test]
fn bytes_that_are_not_utf_8_are_refused_at_their_place() {
    assert_eq!(
        problem_of_bytes(b"domain: d\n# caf\xe9\n"),
        "r.yaml:2:6: byte 0xe9 is not UTF-8; save the file as UTF-8"
    );
    assert_eq!(
        problem_of_bytes(b"\xff\xfed\0o\0"),
        "r.yaml:1:1: byte 0xff is not UTF-8; save the file as UTF-8"
    );
    assert_eq!(
        problem_of_bytes("é: é\n".as_bytes().split_last().unwrap().1.split_last().unwrap().1),
        "r.yaml:1:4: byte 0xc3 is not UTF-8; save the file as UTF-8"
    );
}

/// Some parsers take NUL for the end of the file, and would load half the rules.
#[test]
fn nul_and_other_control_characters_are_refused_wherever_they_are() {
    let places = [
        "domain: d\0\n",
        "domain: d\n\0descriptors: []\n",
        "domain: d\n# \0\ndescriptors: []\n",
        "domain: \"d\0\"\n",
        "domain: 'd\0'\n",
        "domain: |\n  d\0\n",
        "domain: >\n  d\0\n",
        "domain: &\0 d\n",
        "domain: !\0 d\n",
        "domain: d\n\0",
        "domain: d\n...\n\0",
        "\0",
        "domain: d\u{1}\n",
        "domain: \"\u{7f}\"\n",
    ];
    for text in places {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text:?} {found:?}");
    }
    assert_eq!(
        problems("domain: d\n\0descriptors: []\n"),
        ["r.yaml:2:1: not valid YAML: unexpected character: `\\u{0}'"]
    );
}

#[test]
fn a_path_that_is_not_there_is_told() {
    let problems = load_path(Path::new("/nowhere/r.yaml"), &Defaults::default()).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "/nowhere/r.yaml: cannot be read: No such file or directory (os error 2); check the path and its permissions"
    );
}
