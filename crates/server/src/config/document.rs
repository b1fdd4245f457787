//! Texts that are generated from the table: the tables of docs/settings.md, the settings file that `tidegate init` writes,
//! the list in `tidegate serve --help`.

use std::fmt::Write as _;

use super::environment::variable;
use super::kind::Kind;
use super::table::{self, SECTIONS, SETTINGS, Setting};

/// The lines between which docs/settings.md is generated.
pub const MARKERS: [&str; 2] = ["<!-- the table begins -->", "<!-- the table ends -->"];

/// Returns the tables of docs/settings.md, one per section.
pub fn markdown() -> String {
    let mut text = String::new();
    for (section, about) in SECTIONS {
        let heading = if section.is_empty() { "Top level" } else { section };
        let _ = writeln!(text, "\n### {heading}\n\n{about}\n");
        let _ = writeln!(text, "| setting | default | allowed | what it does |\n| --- | --- | --- | --- |");
        for row in table::section(section) {
            let _ = writeln!(text, "| {} |", cells(row).join(" | "));
        }
    }
    text
}

fn cells(row: &Setting) -> [String; 4] {
    let default = if row.default.is_empty() { "empty".to_owned() } else { format!("`{}`", row.default) };
    let allowed = match row.kind {
        Kind::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        kind => kind.allowed(),
    };
    let flag = row.flag.map_or(String::new(), |flag| format!(" Flag: `--{}`.", flag.name));
    [format!("`{}`", row.name), default, allowed, format!("{}{flag}", row.help)]
}

/// Returns a settings file with every setting as a comment, and only the paths set, which are then relative to its
/// folder.
pub fn sample() -> String {
    let mut text = String::from(
        "# The settings of Tidegate. A line such as `#workers: 0` shows a default: remove its `#` to change it.\n\
         # Paths are relative to the folder of this file. `tidegate config` shows what is in force, and why.\n",
    );
    for (section, about) in SECTIONS {
        let _ = writeln!(text, "\n# {about}");
        if !section.is_empty() {
            let _ = writeln!(text, "{section}:");
        }
        let mut inner = "";
        for row in table::section(section) {
            let rest = if section.is_empty() { row.name } else { &row.name[section.len() + 1..] };
            let (group, field) = rest.split_once('.').unwrap_or(("", rest));
            let level = usize::from(!section.is_empty());
            if group != inner && !group.is_empty() {
                let _ = writeln!(text, "{}{group}:", "  ".repeat(level));
            }
            inner = group;
            let indent = "  ".repeat(level + usize::from(!group.is_empty()));
            let off = if matches!(row.kind, Kind::Path | Kind::Rules) { "" } else { "#" };
            let gap = if row.default.is_empty() { "" } else { " " };
            let _ = writeln!(text, "{indent}# {}\n{indent}{off}{field}:{gap}{}", row.help, row.default);
        }
    }
    text
}

/// Returns a list of every setting with its variable, default and help, two lines each.
pub fn list() -> String {
    let mut text = String::new();
    for row in SETTINGS {
        let default = if row.default.is_empty() { "empty" } else { row.default };
        let _ = writeln!(text, "  {}  [{}: {default}]\n      {}", variable(row.name), row.name, row.help);
    }
    text
}
