//! What a client may send at most. One request over a bound is refused, and the message names it.

use std::time::Duration;

use thiserror::Error;

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
    /// What becomes of values over Envoy's protocol that are no text.
    pub odd_values: OddValues,
}

/// What becomes of values that are not UTF-8 or hold control characters. Whoever sends one through Envoy
/// has the call refused, and Envoy lets the request pass, unless it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddValues {
    /// The request is refused.
    Refuse,
    /// They count as what is left when odd bytes are written as `%FF`.
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
            odd_values: OddValues::Refuse,
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
        self.value(value.len())?;
        plain("the key of an entry", key)?;
        plain("the value of an entry", value)
    }

    /// Checks the length of an entry's value.
    ///
    /// # Errors
    /// If it is too long.
    #[inline]
    pub fn value(&self, found: usize) -> Result<(), Refusal> {
        most("the bytes of an entry's value", "bounds.value_bytes", self.value_bytes, found)
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

#[inline]
fn plain(what: &'static str, text: &str) -> Result<(), Refusal> {
    match text.as_bytes().iter().position(|byte| is_control(*byte)) {
        None => Ok(()),
        Some(at) => Err(Refusal::Control { what, found: u32::from(text.as_bytes()[at]), at }),
    }
}
