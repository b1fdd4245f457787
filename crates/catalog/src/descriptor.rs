//! The entries of a request that an override is for.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Entries in order, written `endpoint:POST /api/v1/orders|region`. Written, `\` stands before `|` and `\`,
/// and before `:` in keys; values hold `:` and anything else as it is. No entry at all, written as the empty
/// text, is the tenant's own rule.
///
/// ```
/// use tidegate_catalog::{Descriptor, Entry};
///
/// let descriptor: Descriptor = r"endpoint:GET http://a/b|c\:d".parse()?;
/// let entries = [Entry::with_value("endpoint", "GET http://a/b"), Entry::key("c:d")];
/// assert_eq!(descriptor.entries(), entries);
/// assert_eq!(descriptor.to_string(), r"endpoint:GET http://a/b|c\:d");
/// # Ok::<(), tidegate_catalog::DescriptorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor {
    entries: Vec<Entry>,
}

/// A key, and a value unless it is for all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The key, never empty.
    pub key: String,
    /// The value.
    pub value: Option<String>,
}

/// Why a text is no descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DescriptorError {
    /// An entry begins with `:`, or nothing stands between two `|`.
    #[error("entry {index} has no key: write `key:value` or `key`, joined by `|`")]
    NoKey {
        /// Which one, from 0.
        index: usize,
    },
    /// A `\` before something else.
    #[error(r"`\` must stand before `|`, `:` or `\`, at character {at}; write `\\` for itself")]
    Escape {
        /// Where, from 0.
        at: usize,
    },
}

impl Entry {
    /// A key with any value.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: None }
    }

    /// A key with this value.
    pub fn with_value(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }
}

impl Descriptor {
    /// The tenant's own rule.
    pub const fn own() -> Self {
        Self { entries: Vec::new() }
    }

    /// These entries.
    ///
    /// # Errors
    ///
    /// If a key is empty.
    pub fn new(entries: Vec<Entry>) -> Result<Self, DescriptorError> {
        match entries.iter().position(|entry| entry.key.is_empty()) {
            Some(index) => Err(DescriptorError::NoKey { index }),
            None => Ok(Self { entries }),
        }
    }

    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl FromStr for Descriptor {
    type Err = DescriptorError;

    fn from_str(text: &str) -> Result<Self, DescriptorError> {
        if text.is_empty() {
            return Ok(Self::own());
        }
        let mut entries = vec![Entry::key("")];
        let mut letters = text.chars().enumerate();
        while let Some((at, letter)) = letters.next() {
            let entry = entries.last_mut().expect("there is always one");
            let literal = match letter {
                '\\' => {
                    let escaped = letters.next().map(|(_, escaped)| escaped);
                    escaped
                        .filter(|escaped| "|:\\".contains(*escaped))
                        .ok_or(DescriptorError::Escape { at })?
                }
                '|' => {
                    entries.push(Entry::key(""));
                    continue;
                }
                ':' if entry.value.is_none() => {
                    entry.value = Some(String::new());
                    continue;
                }
                other => other,
            };
            entry.value.as_mut().unwrap_or(&mut entry.key).push(literal);
        }
        Self::new(entries)
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            if index > 0 {
                f.write_str("|")?;
            }
            write_escaped(f, &entry.key, "|:\\")?;
            if let Some(value) = &entry.value {
                f.write_str(":")?;
                write_escaped(f, value, "|\\")?;
            }
        }
        Ok(())
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str, special: &str) -> fmt::Result {
    use fmt::Write;
    text.chars().try_for_each(|letter| {
        if special.contains(letter) {
            f.write_char('\\')?;
        }
        f.write_char(letter)
    })
}

impl Serialize for Descriptor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
