//! Mistakes in rules. All are reported at once, each with its position and a remedy.

use std::fmt;

use serde::Serialize;

/// A mistake in rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The name of the file, or `code`.
    pub file: String,
    /// The position in the file; `None` for rules built in code and for the file as a whole.
    pub place: Option<Place>,
    /// The path of the field, such as `descriptors[0].rate_limit.unit`; empty for the file as a whole.
    pub field: String,
    /// What was found, what is allowed, and a remedy.
    pub message: String,
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
}

/// All mistakes found, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problems(pub Vec<Problem>);

/// Formats the mistake as in `api.yaml:14:9: descriptors[0].rate_limit.unit: must be one of …, got
/// "fortnight"`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        if self.field.is_empty() {
            write!(f, ": {}", self.message)
        } else {
            write!(f, ": {}: {}", self.field, self.message)
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(f, "{line_break}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
