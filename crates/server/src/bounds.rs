//! What a client may send at most. A request over a bound is refused, and the message names the bound; over
//! Envoy's protocol and `tidegate.v1` it is decided in a canonical form instead, see [`OddValues`].

use std::borrow::Cow;
use std::time::Duration;

use thiserror::Error;
use tidegate::spelling;

/// The bounds in force; each is a setting.
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
    /// What happens to values over gRPC that are not text, or are beyond a bound.
    pub odd_values: OddValues,
}

/// What happens to requests over gRPC and `/json` whose values are not UTF-8, hold control characters or are
/// beyond a bound. Values come from the clients of a proxy. A call that is refused is a failed call to that
/// proxy, and Envoy lets the request pass then, unless `failure_mode_deny` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddValues {
    /// The request is refused.
    Refuse,
    /// The request is decided in its canonical form: see [`canonical_text`].
    Count,
}

/// Why a request is refused before it is decided.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is more of something than allowed.
    #[error("{what} must be at most {most} ({setting}), got {found}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The setting that says how much is allowed.
        setting: &'static str,
        /// What is allowed.
        most: usize,
        /// What was sent.
        found: usize,
    },
    /// A text holds what no name or address does.
    #[error("{what} must not contain control characters, found U+{found:04X} at byte {at}")]
    Control {
        /// Which text.
        what: &'static str,
        /// The character.
        found: u32,
        /// Where it is.
        at: usize,
    },
    /// A text is not UTF-8.
    #[error("{what} must be UTF-8 (bounds.odd_values)")]
    NotUtf8 {
        /// Which text.
        what: &'static str,
    },
    /// Something that must be there is not.
    #[error("{what} must not be empty")]
    Empty {
        /// What is missing.
        what: &'static str,
    },
    /// A reservation would last for too short or too long.
    #[error("ttl_ms must be from 1 to 86400000 (a day), got {found}")]
    Lifetime {
        /// Milliseconds.
        found: u64,
    },
    /// The cost is beyond what is counted exactly.
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
    /// Checks how many descriptors a request has.
    ///
    /// # Errors
    /// If there are too many.
    #[inline]
    pub fn descriptors(&self, found: usize) -> Result<(), Refusal> {
        most("descriptors", "bounds.descriptors", self.descriptors, found)
    }

    /// Checks how many entries a descriptor has.
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

    /// Checks how many requests a batch has.
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

    /// Checks a domain's name; whether it may be empty is up to the protocol.
    ///
    /// # Errors
    /// If it is too long or holds control characters.
    #[inline]
    pub fn domain(&self, text: &str) -> Result<(), Refusal> {
        most("the bytes of the domain", "bounds.key_bytes", self.key_bytes, text.len())?;
        plain("the domain", text)
    }

    /// Checks one entry of a descriptor. An empty value is a value.
    ///
    /// # Errors
    /// If the key is empty, or a text is too long or holds control characters.
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

    /// The value of an entry as it is counted: any bytes are accepted, unless [`OddValues::Refuse`] is set.
    ///
    /// # Errors
    /// With [`OddValues::Refuse`], if the value is not UTF-8; [`Bounds::entry`] checks the rest.
    pub fn value_text<'v>(&self, value: &'v [u8]) -> Result<Cow<'v, str>, Refusal> {
        match self.odd_values {
            OddValues::Count => Ok(canonical_text(value, self.value_bytes)),
            OddValues::Refuse => std::str::from_utf8(value)
                .map(Cow::Borrowed)
                .map_err(|_| Refusal::NotUtf8 { what: "the value of an entry" }),
        }
    }

    /// Whether requests are decided in their canonical form rather than refused.
    #[inline]
    pub fn counts_odd_values(&self) -> bool {
        self.odd_values == OddValues::Count
    }

    /// Checks a cost.
    ///
    /// # Errors
    /// If it is beyond 2^53.
    #[inline]
    pub fn cost(&self, cost: u64) -> Result<(), Refusal> {
        if cost > tidegate::MAX_COUNT { Err(Refusal::Cost { found: cost }) } else { Ok(()) }
    }
}

/// How long a reservation lasts if the client does not say.
const USUAL_LIFETIME_MS: u64 = 60_000;
const LONGEST_LIFETIME_MS: u64 = 24 * 3_600 * 1_000;

/// How long a reservation lasts.
///
/// # Errors
/// If that is nothing, or more than a day.
pub fn lifetime(asked_ms: Option<u64>) -> Result<Duration, Refusal> {
    match asked_ms.unwrap_or(USUAL_LIFETIME_MS) {
        ms @ 1..=LONGEST_LIFETIME_MS => Ok(Duration::from_millis(ms)),
        found => Err(Refusal::Lifetime { found }),
    }
}

#[inline]
fn most(what: &'static str, setting: &'static str, most: usize, found: usize) -> Result<(), Refusal> {
    if found > most { Err(Refusal::TooMany { what, setting, most, found }) } else { Ok(()) }
}

/// A tab may stand in a header's value; other control characters are not text.
#[inline]
pub fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}

/// Any bytes as the text that is counted in their place: control characters and bytes that are not UTF-8 are
/// percent-encoded, and what is then longer than `most_bytes` is its beginning and a hash of all of it, as
/// `vectors/keys.json` has it.
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
