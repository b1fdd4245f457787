//! Columns that line up, whatever is in them.

use std::io::IsTerminal as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Rows below a head.
pub(in crate::cli) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// A name could have control characters in it, which would do something to the terminal.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' | '\r' => shown.extend(character.escape_default()),
            control if control.is_control() || is_disguise(control) => shown.extend(control.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}

/// Characters that change the order in which others are shown.
fn is_disguise(character: char) -> bool {
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

    /// Two spaces between columns, nothing after the last. On a terminal, columns are made narrower until lines
    /// fit, and cells go on in the lines below; elsewhere lines are as long as they are.
    pub(in crate::cli) fn render(&self, head: bool) -> String {
        self.render_within(head, terminal_width())
    }

    fn render_within(&self, head: bool, width: Option<usize>) -> String {
        let first: Vec<String> = self.head.iter().map(|&name| name.to_owned()).collect();
        let rows: Vec<&Vec<String>> = head.then_some(&first).into_iter().chain(&self.rows).collect();
        let mut widths = vec![0; self.head.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(*row) {
                *width = cell.width().max(*width);
            }
        }
        if let Some(width) = width {
            narrow(&mut widths, width);
        }
        let mut text = String::new();
        for row in rows {
            let cells: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|(cell, width)| wrap(cell, *width)).collect();
            for index in 0..cells.iter().map(Vec::len).max().unwrap_or_default() {
                let mut line = String::new();
                for (cell, width) in cells.iter().zip(&widths) {
                    let part = cell.get(index).map_or("", String::as_str);
                    line.push_str(part);
                    line.extend(std::iter::repeat_n(' ', (width + GAP).saturating_sub(part.width())));
                }
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text
    }
}

/// Spaces between columns.
const GAP: usize = 2;

/// Columns are not made narrower than this: nobody could read them.
const NARROWEST: usize = 8;

/// Columns of the terminal that is written to; `None` if it is none.
fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    set.or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
        .filter(|width| *width > 0)
}

/// Takes from the widest column until lines fit, or all are as narrow as they may be.
fn narrow(widths: &mut [usize], width: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => return,
        }
    }
}

/// A cell as lines of at most this width: broken after a space or one of `/,|:` where one is in the second half of
/// the line, else wherever it is full.
fn wrap(cell: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = cell;
    while rest.width() > width {
        let end = fitting(rest, width);
        let (line, _) = rest.split_at(end);
        let breaks = line.rfind([' ', '/', ',', '|', ':']).map(|at| at + 1).filter(|at| *at > end / 2);
        let (line, after) = rest.split_at(breaks.unwrap_or(end));
        lines.push(line.trim_end().to_owned());
        rest = after.trim_start();
    }
    lines.push(rest.to_owned());
    lines
}

/// How many bytes of a text fit into a width: at least one character, or nothing would ever be done.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character.width().unwrap_or_default();
        if used > width && at > 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_reaches_the_terminal_that_is_not_text() {
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
                assert!(line.width() <= width, "{width}: {line:?} has {}", line.width());
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
