//! The bounds on what a client may send. A request beyond a bound is refused with a message that names the bound; over
//! Envoy's protocol and `tidegate.v1` it is decided in a canonical form instead, see [`OddValues`].

use std::borrow::Cow;
use std::time::Duration;

use thiserror::Error;
use tidegate::spelling;

/// The bounds, each of which is a setting.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Descriptors of one request.
    pub descriptors: usize,
    /// Entries of one descriptor.
    pub entries: usize,
    /// Bytes of a domain or of an entry's key.
    pub key_bytes: usize,
    /// Bytes of an entry's value.
    pub value_bytes: usize,
    /// Requests of one batch.
    pub batch: usize,
    /// Bytes of one request message or body.
    pub message_bytes: usize,
    /// How values over gRPC that are not text or exceed a bound are handled.
    pub odd_values: OddValues,
}

/// How requests over gRPC and `/json` are handled whose values are not UTF-8, contain control characters or exceed a
/// bound. Such values come from the clients of a proxy. A rejected call counts as failed for the proxy, and Envoy
/// then lets the request pass, unless `failure_mode_deny` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddValues {
    /// The request is refused.
    Refuse,
    /// The request is decided in its canonical form: see [`canonical_text`].
    Count,
}

/// Reasons to refuse a request before it is decided.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There are more of something than allowed.
    #[error("{what} must be at most {most} ({setting}), got {found}")]
    TooMany {
        /// The thing that is counted.
        what: &'static str,
        /// The setting of the bound.
        setting: &'static str,
        /// The bound.
        most: usize,
        /// The number that was sent.
        found: usize,
    },
    /// A message is longer than it may be.
    #[error("a request must be at most {most} bytes (bounds.message_bytes)")]
    TooLong {
        /// How many bytes are allowed.
        most: usize,
    },
    /// A text contains control characters.
    #[error("{what} must not contain control characters, found U+{found:04X} at byte {at}")]
    Control {
        /// Which text.
        what: &'static str,
        /// The character.
        found: u32,
        /// Its index in bytes.
        at: usize,
    },
    /// A text is not UTF-8.
    #[error("{what} must be UTF-8 (bounds.odd_values)")]
    NotUtf8 {
        /// Which text.
        what: &'static str,
    },
    /// Something must not be empty.
    #[error("{what} must not be empty")]
    Empty {
        /// The thing that is empty.
        what: &'static str,
    },
    /// The lifetime of a reservation is too short or too long.
    #[error("ttl_ms must be from 1 to 86400000 (a day), got {found}")]
    Lifetime {
        /// The lifetime in milliseconds.
        found: u64,
    },
    /// The cost is too large to be counted exactly.
    #[error("cost must be at most 9007199254740992 (2^53), got {found}")]
    Cost {
        /// The cost.
        found: u64,
    },
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            descriptors: 100,
            entries: 32,
            key_bytes: 256,
            value_bytes: 64 << 10,
            batch: 1000,
            message_bytes: 1 << 20,
            odd_values: OddValues::Count,
        }
    }
}

impl Bounds {
    /// Checks the number of descriptors in a request.
    ///
    /// # Errors
    /// If there are too many.
    #[inline]
    pub fn descriptors(&self, found: usize) -> Result<(), Refusal> {
        most("descriptors", "bounds.descriptors", self.descriptors, found)
    }

    /// Checks the number of entries in a descriptor.
    ///
    /// # Errors
    /// If there are none, or too many.
    #[inline]
    pub fn entries(&self, found: usize) -> Result<(), Refusal> {
        if found == 0 {
            return Err(Refusal::Empty { what: "the entries of a descriptor" });
        }
        most("entries of a descriptor", "bounds.entries", self.entries, found)
    }

    /// Checks the number of requests in a batch.
    ///
    /// # Errors
    /// If there are too many.
    pub fn batch(&self, found: usize) -> Result<(), Refusal> {
        most("requests of a batch", "bounds.batch", self.batch, found)
    }

    /// Checks the length of a message.
    ///
    /// # Errors
    /// If it is too long.
    pub fn message(&self, found: usize) -> Result<(), Refusal> {
        most("the bytes of a request", "bounds.message_bytes", self.message_bytes, found)
    }

    /// Returns the refusal of a message that was too long to be collected.
    pub fn message_too_long(&self) -> Refusal {
        Refusal::TooLong { most: self.message_bytes }
    }

    /// Checks the name of a domain. Whether it may be empty depends on the protocol.
    ///
    /// # Errors
    /// If it is too long or contains control characters.
    #[inline]
    pub fn domain(&self, text: &str) -> Result<(), Refusal> {
        most("the bytes of the domain", "bounds.key_bytes", self.key_bytes, text.len())?;
        plain("the domain", text)
    }

    /// Checks an entry of a descriptor. The value may be empty.
    ///
    /// # Errors
    /// If the key is empty, or a text is too long or contains control characters.
    #[inline]
    pub fn entry(&self, key: &str, value: &str) -> Result<(), Refusal> {
        if key.is_empty() {
            return Err(Refusal::Empty { what: "the key of an entry" });
        }
        most("the bytes of an entry's key", "bounds.key_bytes", self.key_bytes, key.len())?;
        most("the bytes of an entry's value", "bounds.value_bytes", self.value_bytes, value.len())?;
        plain("the key of an entry", key)?;
        plain("the value of an entry", value)
    }

    /// Returns the key and the value of an entry, in canonical form unless [`OddValues::Refuse`] is set. The value may be
    /// empty.
    ///
    /// # Errors
    /// If the key is empty. With [`OddValues::Refuse`], also if a text is not UTF-8, too long or contains control
    /// characters.
    pub fn entry_text<'e>(
        &self,
        key: &'e [u8],
        value: &'e [u8],
    ) -> Result<(Cow<'e, str>, Cow<'e, str>), Refusal> {
        if key.is_empty() {
            return Err(Refusal::Empty { what: "the key of an entry" });
        }
        if self.counts_odd_values() {
            return Ok((canonical_text(key, self.key_bytes), canonical_text(value, self.value_bytes)));
        }
        let text = |bytes, what| std::str::from_utf8(bytes).map_err(|_| Refusal::NotUtf8 { what });
        let (key, value) = (text(key, "the key of an entry")?, text(value, "the value of an entry")?);
        self.entry(key, value)?;
        Ok((Cow::Borrowed(key), Cow::Borrowed(value)))
    }

    /// Returns whether requests are decided in their canonical form instead of being refused.
    #[inline]
    pub fn counts_odd_values(&self) -> bool {
        self.odd_values == OddValues::Count
    }

    /// Checks a cost.
    ///
    /// # Errors
    /// If it is above 2^53.
    #[inline]
    pub fn cost(&self, cost: u64) -> Result<(), Refusal> {
        if cost > tidegate::MAX_COUNT { Err(Refusal::Cost { found: cost }) } else { Ok(()) }
    }
}

/// The default lifetime of a reservation.
const DEFAULT_LIFETIME_MS: u64 = 60_000;
/// The maximum lifetime of a reservation.
const MAX_LIFETIME_MS: u64 = 24 * 3_600 * 1_000;

/// Returns the lifetime of a reservation.
///
/// # Errors
/// If it is 0, or more than a day.
pub fn lifetime(ttl_ms: Option<u64>) -> Result<Duration, Refusal> {
    match ttl_ms.unwrap_or(DEFAULT_LIFETIME_MS) {
        ms @ 1..=MAX_LIFETIME_MS => Ok(Duration::from_millis(ms)),
        found => Err(Refusal::Lifetime { found }),
    }
}

#[inline]
fn most(what: &'static str, setting: &'static str, most: usize, found: usize) -> Result<(), Refusal> {
    if found > most { Err(Refusal::TooMany { what, setting, most, found }) } else { Ok(()) }
}

/// Returns whether a byte is a control character. A tab is not, because header values may contain it.
#[inline]
pub fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}

/// Returns the canonical text of any bytes: control characters and bytes that are not UTF-8 are percent-encoded, and if
/// the result is longer than `most_bytes`, it is replaced by its beginning and a hash of the whole, as defined in
/// `vectors/keys.json`.
pub fn canonical_text(bytes: &[u8], most_bytes: usize) -> Cow<'_, str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.iter().copied().any(is_control) => Cow::Borrowed(text),
        _ => Cow::Owned(percent_encoded(bytes)),
    };
    if text.len() > most_bytes { Cow::Owned(spelling::value(&text).into_owned()) } else { text }
}

fn percent_encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(bytes.len() + 16);
    let encode = |text: &mut String, byte: u8| {
        text.push('%');
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match u8::try_from(character) {
                Ok(byte) if is_control(byte) => encode(&mut text, byte),
                _ => text.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| encode(&mut text, *byte));
    }
    text
}

#[inline]
fn plain(what: &'static str, text: &str) -> Result<(), Refusal> {
    match text.as_bytes().iter().position(|byte| is_control(*byte)) {
        None => Ok(()),
        Some(at) => Err(Refusal::Control { what, found: u32::from(text.as_bytes()[at]), at }),
    }
}

#[cfg(test)]
mod tests {
    use super::canonical_text;

    #[test]
    fn any_bytes_have_a_text_that_is_counted() {
        let cases: [(&[u8], &str); 6] = [
            (b"ann", "ann"),
            (b"a\tb", "a\tb"),
            (b"me\xff", "me%FF"),
            (b"a\0b\x7f\n", "a%00b%7F%0A"),
            ("gr\u{f6}\u{df}er\u{85}".as_bytes(), "gr\u{f6}\u{df}er\u{85}"),
            (b"\xc3(\xe2\x82", "%C3(%E2%82"),
        ];
        for (bytes, text) in cases {
            assert_eq!(canonical_text(bytes, 1000), text);
        }
        let long = canonical_text(&[b'x'; 1001], 1000).into_owned();
        assert_eq!((long.len(), &long[198..201]), (233, "xx~"));
        assert_ne!(canonical_text(&[b'x'; 1002], 1000), long);
        assert_eq!(canonical_text(&[b'x'; 1000], 1000).len(), 1000);
    }
}
