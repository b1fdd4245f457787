//! Tables that fit the terminal.

use std::io::IsTerminal as _;

use comfy_table::ContentArrangement;
use comfy_table::presets::NOTHING;

/// A table with a header.
pub(in crate::cli) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// Escapes control characters, which would affect the terminal.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' | '\r' => shown.extend(character.escape_default()),
            control if control.is_control() || is_direction_control(control) => {
                shown.extend(control.escape_unicode());
            }
            other => shown.push(other),
        }
    }
    shown
}

/// Returns whether a character changes the order in which others are shown.
fn is_direction_control(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Table {
    pub(in crate::cli) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. An empty cell shows as `-`, so that columns can be counted.
    pub(in crate::cli) fn row(&mut self, cells: Vec<String>) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { plain(&cell) };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders columns with two spaces between them and none after the last. On a terminal, cells are wrapped until
    /// lines fit; elsewhere lines are as long as they are.
    pub(in crate::cli) fn render(&self, head: bool) -> String {
        self.render_within(head, terminal_width())
    }

    fn render_within(&self, head: bool, width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).add_rows(&self.rows);
        if head {
            table.set_header(&self.head);
        }
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        let last = self.head.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if index == last { 0 } else { GAP }));
        }
        table.trim_fmt() + "\n"
    }
}

/// Spaces between columns.
const GAP: u16 = 2;

/// Returns the columns of the terminal that is written to; `None` if it is not a terminal.
fn terminal_width() -> Option<u16> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    set.or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0)).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_are_escaped() {
        let mut table = Table::new(&["NAME", "TIER"]);
        table.row(vec!["\u{65e5}\u{672c}".to_owned(), "pro".to_owned()]);
        table.row(vec!["a\u{1b}[2Jb\nc\u{202e}".to_owned(), String::new()]);
        let shown = table.render(true);
        assert_eq!(
            shown,
            "NAME                    TIER\n\
             \u{65e5}\u{672c}                    pro\n\
             a\\u{1b}[2Jb\\nc\\u{202e}  -\n"
        );
        assert_eq!(table.render(false).lines().count(), 2);
    }

    #[test]
    fn lines_fit_the_terminal_and_no_text_is_lost() {
        let mut table = Table::new(&["TENANT", "OVERRIDES", "UPDATED"]);
        let (wide, long) =
            ("\u{65e5}\u{672c}\u{8a9e}".repeat(7), "endpoint:POST /v1/orders 500/minute".repeat(3));
        table.row(vec![wide.clone(), long.clone(), "2026-11-13 06:35:57Z (3d ago)".to_owned()]);
        table.row(vec!["acme".to_owned(), String::new(), "-".to_owned()]);
        for width in [28, 40, 61, 80, 120] {
            let shown = table.render_within(true, Some(width));
            for line in shown.lines() {
                assert!(line.width() <= usize::from(width), "{width}: {line:?} has {}", line.width());
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>();
            let mut all = letters(&shown);
            for letter in letters(&(wide.clone() + &long)) {
                let at = all.iter().position(|found| *found == letter);
                all.remove(at.unwrap_or_else(|| panic!("{width}: {letter:?} is lost in\n{shown}")));
            }
        }
        let shown = table.render_within(true, Some(40));
        assert!(shown.starts_with("TENANT") && shown.lines().count() > 6, "{shown}");
        assert_eq!(table.render_within(true, Some(1000)), table.render_within(true, None), "what fits stays");
        assert!(!table.render_within(true, Some(1)).is_empty(), "no width is too narrow to end");
    }
}
