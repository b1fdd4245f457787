//! What is not YAML, or not the YAML that is read here.

use super::{Table, expect_problems, file};

const SYNTAX: Table = &[
    ("a: b: c", &["r.yaml:1:5: not valid YAML: mapping values are not allowed in this context"]),
    (
        "domain: d\ndescriptors:\n\t- key: a",
        &["r.yaml:3:2: not valid YAML: tabs disallowed within this context (block indentation)"],
    ),
    ("domain: [a, b", &["r.yaml:1:9: not valid YAML: unclosed bracket '['"]),
    (r#"domain: "a"#, &["r.yaml:1:9: not valid YAML: unclosed quote"]),
    (
        "domain: *x",
        &["r.yaml:1:9: the alias has no anchor; define its anchor (`&name`) above it, or quote the text"],
    ),
    ("domain: !include other.yaml", &[r#"r.yaml:1:9: the tag "!include" means nothing here; remove it"#]),
    (
        r"
        domain: a
        ---
        domain: b
        ",
        &["r.yaml:2:1: a second document begins here; write one document per file, or remove the `---`"],
    ),
    (
        r"
        ? [a]
        : b
        ",
        &["r.yaml:1:3: a key must be text, not a list or a mapping"],
    ),
    ("&a [*a]", &["r.yaml:1:5: the alias is inside the value it stands for; write the value out"]),
    (
        "<<: 5",
        &["r.yaml:1:5: `<<` merges mappings; give it the alias of a mapping, or a list of such aliases"],
    ),
    (
        r"
        <<: {a: 1}
        <<: {b: 2}
        ",
        &["r.yaml:2:1: a second `<<`; give the first a list of what to merge: `<<: [*a, *b]`"],
    ),
    ("# nothing", &["r.yaml: the file is empty; begin with `domain: NAME`"]),
    (
        r"
        domain: d
        descriptors: [{key: a, value: *}]
        ",
        &[r#"r.yaml:2:31: `*` begins an alias and `&` an anchor; quote text that begins so, as in "*""#],
    ),
];

#[test]
fn a_syntax_error_is_alone_and_at_its_place() {
    expect_problems(file, SYNTAX);
}
