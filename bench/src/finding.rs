//! The result of a study, as text for people, Markdown for the docs and JSON for programs.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

/// The result of one study.
#[derive(Serialize)]
pub(crate) struct Finding {
    pub(crate) study: &'static str,
    #[serde(skip)]
    pub(crate) title: &'static str,
    /// How the figures were measured, in paragraphs.
    #[serde(skip)]
    pub(crate) notes: Vec<String>,
    #[serde(skip)]
    pub(crate) tables: Vec<Table>,
    pub(crate) targets: Vec<Target>,
    pub(crate) plots: Vec<Plot>,
    /// The measured figures.
    pub(crate) data: Value,
}

/// A table of texts, with a heading for each column.
pub(crate) struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A measured figure with the value that it should reach.
#[derive(Clone, Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) found: String,
    pub(crate) met: bool,
}

/// A chart in the plots folder.
#[derive(Serialize)]
pub(crate) struct Plot {
    pub(crate) file: &'static str,
    pub(crate) shows: &'static str,
}

impl Table {
    pub(crate) fn new<'a>(caption: impl Into<String>, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = columns.into_iter().map(str::to_owned).collect();
        Self { caption: caption.into(), columns, rows: Vec::new() }
    }

    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| cell.as_ref().to_owned()).collect());
    }

    fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN);
        table.set_header(&self.columns);
        for row in &self.rows {
            table.add_row(row);
        }
        let caption = if self.caption.is_empty() { String::new() } else { format!("{}\n", self.caption) };
        format!("{caption}{table}\n")
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = if self.caption.is_empty() { String::new() } else { format!("{}:\n\n", self.caption) };
        text += &line(&self.columns);
        text += &line(&vec!["---".to_owned(); self.columns.len()]);
        self.rows.iter().for_each(|row| text += &line(row));
        text
    }
}

impl Target {
    /// Creates a target that is met if `found` is at most `most`.
    pub(crate) fn at_most(what: impl Into<String>, found: f64, most: f64, unit: &str) -> Self {
        let wanted = format!("at most {most}{unit}");
        Self { what: what.into(), wanted, found: format!("{}{unit}", short(found)), met: found <= most }
    }

    /// Creates a target that is met if `found` is at least `least`.
    pub(crate) fn at_least(what: impl Into<String>, found: f64, least: f64, unit: &str) -> Self {
        let wanted = format!("at least {least}{unit}");
        Self { what: what.into(), wanted, found: format!("{}{unit}", short(found)), met: found >= least }
    }

    /// Creates a target that is met if `found` is below `bound`.
    pub(crate) fn below(what: impl Into<String>, found: f64, bound: f64, unit: &str) -> Self {
        let wanted = format!("below {bound}{unit}");
        Self { what: what.into(), wanted, found: format!("{}{unit}", short(found)), met: found < bound }
    }

    fn word(&self) -> &'static str {
        if self.met { "met" } else { "MISSED" }
    }

    /// Returns the target as one line: `met: 1M keys on 1 thread: 0.41x (at most 0.5x)`.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}: {} (target: {})", self.word(), self.what, self.found, self.wanted)
    }

    /// Returns all targets as one table.
    pub(crate) fn table<'a>(targets: impl IntoIterator<Item = &'a Self>) -> Table {
        let mut table = Table::new("", ["target", "wanted", "found", ""]);
        for target in targets {
            table.row([&target.what, &target.wanted, &target.found, target.word()]);
        }
        table
    }
}

impl Finding {
    /// Returns the finding as text for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("# {}\n\n", self.title);
        for note in &self.notes {
            let _ = writeln!(text, "{note}\n");
        }
        for table in &self.tables {
            let _ = writeln!(text, "{}", table.text());
        }
        for plot in &self.plots {
            let _ = writeln!(text, "plot: {} ({})", plot.file, plot.shows);
        }
        for target in &self.targets {
            let _ = writeln!(text, "{}", target.line());
        }
        text
    }

    /// Returns the finding as Markdown for the docs.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        let _ = writeln!(text, "`cd bench && cargo run --release -- {}`\n", self.study);
        for note in &self.notes {
            let _ = writeln!(text, "{note}\n");
        }
        for table in &self.tables {
            let _ = writeln!(text, "{}", table.markdown());
        }
        for Plot { file, shows } in &self.plots {
            let _ = writeln!(text, "![{shows}](plots/{file})\n");
        }
        if !self.targets.is_empty() {
            let _ = writeln!(text, "{}", Target::table(&self.targets).markdown());
        }
        text
    }
}

/// Returns a table as Markdown.
pub(crate) fn markdown(table: &Table) -> String {
    table.markdown()
}

/// Formats a number with three decimals, so that a narrow miss does not look like a hit, or without decimals if they
/// are zero.
fn short(number: f64) -> String {
    if number.fract() == 0.0 { number.to_string() } else { format!("{number:.3}") }
}

/// Formats a number of threads: `1 thread`, `2 threads`.
pub(crate) fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

/// Formats a round number in short form: `10k`, `1M`.
pub(crate) fn round(number: usize) -> String {
    match number {
        n if n >= 1_000_000 && n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// Formats a number with digits in groups of three: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Table, Target, grouped, round};

    #[test]
    fn numbers_read_well() {
        assert_eq!(round(10_000), "10k");
        assert_eq!(round(10_000_000), "10M");
        assert_eq!(round(1_234), "1234");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
    }

    #[test]
    fn a_target_says_whether_it_was_met() {
        assert!(Target::at_most("x", 0.5, 0.5, "x").met);
        assert!(!Target::below("x", 1.3, 1.3, "x").met);
        assert!(Target::at_least("x", 2.0, 2.0, "x").met);
        let line = Target::at_most("time", 0.504, 0.5, "x").line();
        assert_eq!(line, "MISSED: time: 0.504x (target: at most 0.5x)");
    }

    #[test]
    fn a_table_is_markdown_too() {
        let mut table = Table::new("caption", ["a", "b"]);
        table.row(["1", "2"]);
        assert_eq!(table.markdown(), "caption:\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }
}
