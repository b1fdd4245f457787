//! Rule files: what is accepted, and every mistake with its message.

mod accepted;
mod any_text;
mod bounds;
mod domain_mistakes;
mod encodings;
mod limit_mistakes;
mod paths;
mod rate_limit_mistakes;
mod rule_mistakes;
mod tier_mistakes;
mod whole_files;
mod yaml_mistakes;

use tidegate::rules::file;
use tidegate::{Defaults, Domain, Problems};

/// What `r.yaml` with this text loads as.
fn load(text: &str) -> Result<Domain, Problems> {
    file::load("r.yaml", text, &Defaults::default())
}

/// One line per problem; none if the text loads.
fn problems(text: &str) -> Vec<String> {
    match load(text) {
        Ok(_) => Vec::new(),
        Err(Problems(problems)) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// The text without the indentation it has in the test.
fn dedent(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text).trim_end_matches(' ');
    let indented = text.lines().filter(|line| !line.trim().is_empty());
    let indent = indented.map(|line| line.len() - line.trim_start_matches(' ').len()).min().unwrap_or(0);
    let lines: Vec<&str> = text.lines().map(|line| line.get(indent..).unwrap_or("")).collect();
    lines.join("\n")
}

/// A whole file.
fn file(text: &str) -> String {
    dedent(text)
}

/// A file of one descriptor; its fields begin on line 3, column 5.
fn rule(fields: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {}", dedent(fields).replace('\n', "\n    "))
}

/// A file of one descriptor, with a key and this field on line 4.
fn field(field: &str) -> String {
    rule(&format!("key: a\n{field}"))
}

/// A file of one descriptor with one limit, whose fields are on line 4 from column 15.
fn limit(fields: &str) -> String {
    format!("domain: d\ndescriptors:\n  - key: k\n    limits: [{{{fields}}}]")
}

/// Texts, each with the problems it has.
type Table = &'static [(&'static str, &'static [&'static str])];

/// Checks the problems of each text of a table, and shows all that differ.
fn expect_problems(whole: fn(&str) -> String, table: Table) {
    let differs = |(text, expected): &(&str, &[&str])| {
        let found = problems(&whole(text));
        let (shown, wanted) = (found.join("\n  "), expected.join("\n  "));
        (found != *expected).then(|| format!("{text}\nfound:\n  {shown}\nexpected:\n  {wanted}\n"))
    };
    let wrong: Vec<String> = table.iter().filter_map(differs).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
