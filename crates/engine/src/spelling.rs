//! The normal form of values and costs from clients, which every service accepts.
//!
//! A request that a service rejects is decided by the fallback, so a client that could cause a rejection would escape
//! the limit. `vectors/keys.json` has the cases.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tidegate_core::MAX_COUNT;

/// The most bytes of a value.
const MOST_BYTES: usize = 256;

/// The number of bytes that are kept of a longer value.
const KEPT_BYTES: usize = 200;

/// The number of bytes of its hash that follow.
const HASH_BYTES: usize = 16;

/// Returns the value of an entry as it is sent to a service. Control characters are percent-encoded. If the result is
/// longer than 256 bytes, it is replaced by its beginning and a hash of the whole text.
///
/// ```
/// assert_eq!(tidegate::spelling::value("ann\n"), "ann%0A");
/// assert_eq!(tidegate::spelling::value(&"x".repeat(1_000)).len(), 233);
/// ```
pub fn value(text: &str) -> Cow<'_, str> {
    let text = without_controls(text);
    if text.len() > MOST_BYTES { Cow::Owned(shortened(&text)) } else { text }
}

/// Returns a cost as it is sent to a service: at most 2^53.
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
            // Writing to a string does not fail.
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
