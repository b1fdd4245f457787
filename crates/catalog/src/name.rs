//! Validation of names and texts.

use crate::error::{Error, Result};

/// The longest name, in characters.
pub const MAX_NAME: usize = 256;

/// Checks that a name has 1 to 256 characters and no control characters.
///
/// # Errors
/// Returns an error for `field` that says what is wrong.
pub fn check(field: &str, name: &str) -> Result<()> {
    check_bounded(field, name, MAX_NAME)
}

/// Checks that a name has 1 to `most` characters and no control characters.
pub(crate) fn check_bounded(field: &str, name: &str, most: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(field, "must not be empty"));
    }
    check_length(field, name, most)?;
    match name.chars().find(|letter| letter.is_control()) {
        Some(control) => {
            let code = u32::from(control);
            Err(Error::invalid(field, format!("must not contain control characters, got U+{code:04X}")))
        }
        None => Ok(()),
    }
}

/// Checks a name that may be absent: 1 to 256 characters, no control characters.
pub(crate) fn check_some(field: &str, name: Option<&str>) -> Result<()> {
    name.map_or(Ok(()), |name| check(field, name))
}

/// Checks that a text has at most `most` characters and no U+0000, which the databases do not accept.
pub(crate) fn check_text(field: &str, text: &str, most: usize) -> Result<()> {
    check_length(field, text, most)?;
    if text.contains('\0') {
        return Err(Error::invalid(field, "must not contain the character U+0000"));
    }
    Ok(())
}

fn check_length(field: &str, text: &str, most: usize) -> Result<()> {
    // A character has at most 4 bytes, so a huge text need not be counted exactly.
    let characters = if text.len() > 4 * most { text.len() / 4 + 1 } else { text.chars().count() };
    if characters > most {
        return Err(Error::invalid(field, format!("must have at most {most} characters, got {characters}")));
    }
    Ok(())
}
