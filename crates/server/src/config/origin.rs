//! The values in force, each with its origin.

use std::fmt;
use std::sync::Arc;

use super::kind::Value;
use super::table;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// Implied by `compat`.
    Compat,
    /// A line of the settings file.
    File {
        /// The path of the file.
        file: Arc<str>,
        /// The line in it, from 1.
        line: u64,
    },
    /// An environment variable.
    Environment(String),
    /// A flag, without its dashes.
    Flag(&'static str),
}

/// Prints `default`, `compat`, `tidegate.yaml:12`, `TIDEGATE_X` or `--grpc`.
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
pub struct EffectiveSetting {
    /// Its row in the table.
    pub row: &'static table::Setting,
    /// Its value.
    pub value: Value,
    /// The origin of the value.
    pub origin: Origin,
}

/// Every setting in force, in the order of the table.
#[derive(Clone, Debug)]
pub struct EffectiveSettings(pub(super) Arc<[EffectiveSetting]>);

impl EffectiveSettings {
    /// Iterates over all settings.
    pub fn iter(&self) -> std::slice::Iter<'_, EffectiveSetting> {
        self.0.iter()
    }

    /// Returns the setting with this dotted name.
    pub fn find(&self, name: &str) -> Option<&EffectiveSetting> {
        self.0.iter().find(|held| held.row.name == name)
    }
}

impl<'a> IntoIterator for &'a EffectiveSettings {
    type Item = &'a EffectiveSetting;
    type IntoIter = std::slice::Iter<'a, EffectiveSetting>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
