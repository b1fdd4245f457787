//! Values in force, each with where it came from.

use std::fmt;
use std::sync::Arc;

use super::kind::Value;
use super::table;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The table's own default.
    Default,
    /// `compat` implies it.
    Compat,
    /// A line of the settings file.
    File {
        /// The file, as it was named.
        file: Arc<str>,
        /// The line, from 1.
        line: u64,
    },
    /// A variable of the environment.
    Environment(String),
    /// A flag, without its dashes.
    Flag(&'static str),
}

/// `default`, `compat`, `tidegate.yaml:12`, `TIDEGATE_X` or `--grpc`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Compat => f.write_str("compat"),
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Environment(variable) => f.write_str(variable),
            Self::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// One setting in force.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its row in the table.
    pub row: &'static table::Setting,
    /// What holds.
    pub value: Value,
    /// Who said so.
    pub origin: Origin,
}

/// Every setting in force, in the order of the table.
#[derive(Clone, Debug)]
pub struct InForce(pub(super) Arc<[Held]>);

impl InForce {
    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Held> {
        self.0.iter()
    }

    /// The one of that dotted name.
    pub fn find(&self, name: &str) -> Option<&Held> {
        self.0.iter().find(|held| held.row.name == name)
    }
}

impl<'a> IntoIterator for &'a InForce {
    type Item = &'a Held;
    type IntoIter = std::slice::Iter<'a, Held>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
