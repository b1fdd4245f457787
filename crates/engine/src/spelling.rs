//! Texts and costs that clients can write, in the one spelling that no service refuses.
//!
//! A question that is refused is decided by the fallback, and whoever can bring that about has left the
//! limit. `vectors/keys.json` has the cases.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tidegate_core::MAX_COUNT;

/// So many bytes a value has at most.
const MOST_BYTES: usize = 256;

/// So many bytes of a longer one are kept.
const KEPT_BYTES: usize = 200;

/// So many bytes of its hash follow.
const HASH_BYTES: usize = 16;

/// The value of an entry as it goes to a service: control characters are percent-encoded, and what is then
/// longer than 256 bytes is its beginning and a hash of all of it.
///
/// ```
/// assert_eq!(tidegate::spelling::value("ann\n"), "ann%0A");
/// assert_eq!(tidegate::spelling::value(&"x".repeat(1_000)).len(), 233);
/// ```
pub fn value(text: &str) -> Cow<'_, str> {
    let text = without_controls(text);
    if text.len() > MOST_BYTES { Cow::Owned(shortened(&text)) } else { text }
}

/// A cost as it goes to a service.
pub fn cost(cost: u64) -> u64 {
    cost.min(MAX_COUNT)
}

fn is_control(character: char) -> bool {
    character.is_ascii_control() && character != '\t'
}

fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_control(character) {
            // Writing to a text never fails.
            _ = write!(encoded, "%{:02X}", u32::from(character));
        } else {
            encoded.push(character);
        }
    }
    Cow::Owned(encoded)
}

fn shortened(text: &str) -> String {
    let mut short = text[..text.floor_char_boundary(KEPT_BYTES)].to_owned();
    short.push('~');
    for byte in &Sha256::digest(text.as_bytes())[..HASH_BYTES] {
        _ = write!(short, "{byte:02x}");
    }
    short
}
