//! Columns that line up, whatever is in them.

use unicode_width::UnicodeWidthStr;

/// Rows below a head.
pub(super) struct Table {
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
    pub(super) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. An empty cell shows as `-`, so that columns can be counted.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { plain(&cell) };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Two spaces between columns, nothing after the last; lines are as long as they are.
    pub(super) fn render(&self, head: bool) -> String {
        let first: Vec<String> = self.head.iter().map(|&name| name.to_owned()).collect();
        let lines: Vec<&Vec<String>> = head.then_some(&first).into_iter().chain(&self.rows).collect();
        let mut widths = vec![0; self.head.len()];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(*line) {
                *width = cell.width().max(*width);
            }
        }
        let mut text = String::new();
        for line in lines {
            let mut shown = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                shown.push_str(cell);
                shown.extend(std::iter::repeat_n(' ', width + 2 - cell.width()));
            }
            text.push_str(shown.trim_end());
            text.push('\n');
        }
        text
    }
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
}
