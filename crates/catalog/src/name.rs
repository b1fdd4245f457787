//! What a name may be.

use crate::error::{Error, Result};

/// The longest name, in characters.
pub const MAX_NAME: usize = 256;

/// One to 256 characters, none of which is a control character.
///
/// # Errors
/// What is wrong with it, as that field's.
pub fn check(field: &str, name: &str) -> Result<()> {
    check_bounded(field, name, MAX_NAME)
}

/// The same with another bound.
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

/// The same for a name that may be left out.
pub(crate) fn check_some(field: &str, name: Option<&str>) -> Result<()> {
    name.map_or(Ok(()), |name| check(field, name))
}

/// Any text of at most `most` characters, except that no database takes the character NUL.
pub(crate) fn check_text(field: &str, text: &str, most: usize) -> Result<()> {
    check_length(field, text, most)?;
    if text.contains('\0') {
        return Err(Error::invalid(field, "must not contain the character U+0000"));
    }
    Ok(())
}

fn check_length(field: &str, text: &str, most: usize) -> Result<()> {
    // Bytes bound characters, so that a huge text is not counted.
    let characters = if text.len() > 4 * most { text.len() / 4 + 1 } else { text.chars().count() };
    if characters > most {
        return Err(Error::invalid(field, format!("must have at most {most} characters, got {characters}")));
    }
    Ok(())
}
