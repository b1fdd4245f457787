//! The descriptor entries that an override applies to.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Descriptor entries in order, with the text form `endpoint:POST /api/v1/orders|region`.
///
/// In the text form, `|` and `\` are escaped with `\`, and so is `:` in keys. Values contain `:` and all
/// other characters unescaped. A descriptor without entries, whose text is empty, is the tenant's own rule.
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

/// An entry of a descriptor: a key with one value or any value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The key, never empty.
    pub key: String,
    /// The value; `None` for any value.
    pub value: Option<String>,
}

/// Reasons why a text is not a valid descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DescriptorError {
    /// An entry has no key: it begins with `:` or is empty.
    #[error("entry {index} has no key: write `key:value` or `key`, joined by `|`")]
    NoKey {
        /// The index of the entry, from 0.
        index: usize,
    },
    /// A `\` that is not followed by `|`, `:` or `\`.
    #[error(r"`\` must be followed by `|`, `:` or `\`, at character {at}; write `\\` for a backslash")]
    Escape {
        /// The index of the character, from 0.
        at: usize,
    },
}

impl Entry {
    /// Creates an entry for a key with any value.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: None }
    }

    /// Creates an entry for a key with this value.
    pub fn with_value(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }
}

impl Descriptor {
    /// Returns the descriptor without entries, which is the tenant's own rule.
    pub const fn own() -> Self {
        Self { entries: Vec::new() }
    }

    /// Creates a descriptor from entries.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is empty.
    pub fn new(entries: Vec<Entry>) -> Result<Self, DescriptorError> {
        match entries.iter().position(|entry| entry.key.is_empty()) {
            Some(index) => Err(DescriptorError::NoKey { index }),
            None => Ok(Self { entries }),
        }
    }

    /// Returns the entries in order.
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
