//! The hash chain: how lines are sealed and checked.
//!
//! A line is a JSON object that begins with `seq` and `prev` and ends with `hash`, which is the SHA-256 of
//! the text of the line before `,"hash":`. So it can be checked with `sha256sum`.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::record::{Lost, MAX_RECORD_BYTES};

/// The longest line. Sealing adds a number, two hashes and the counts of missing records to a record.
pub(crate) const MAX_LINE_BYTES: usize = MAX_RECORD_BYTES + 1024;

const HASH: &str = ",\"hash\":\"";
const END: &str = "\"}";
const TAIL_BYTES: usize = HASH.len() + 64 + END.len();

/// A SHA-256 hash, written in lower-case hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

/// The end of a chain: the line that the next one continues from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// The number of the newest line; 0 before the first.
    pub seq: u64,
    /// The hash of the newest line; zeros before the first.
    pub hash: Hash,
}

impl Tip {
    /// Appends `record`, a JSON object, to `lines` as the next line, and advances to it.
    pub(crate) fn seal(&mut self, record: &str, missing: Lost, lines: &mut Vec<u8>) {
        let begin = lines.len();
        self.seq += 1;
        let mut line = head(self.seq, self.hash);
        if !missing.is_none() {
            let Lost { changes, denials } = missing;
            let _ = write!(line, "\"missing\":{{\"changes\":{changes},\"denials\":{denials}}},");
        }
        // The braces of the record are replaced by those of the line.
        line += record.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        lines.extend_from_slice(line.as_bytes());
        self.hash = Hash::of(&lines[begin..]);
        lines.extend_from_slice(format!("{HASH}{}{END}\n", self.hash).as_bytes());
    }

    /// Advances to `line`, which is given without its newline.
    ///
    /// # Errors
    /// Returns why it cannot be the next line.
    pub(crate) fn follow(&mut self, line: &[u8]) -> Result<(), String> {
        let hash = checked_hash(line)?;
        let (seq, prev) = beginning(line).ok_or("it does not begin with seq and prev")?;
        if seq != self.seq + 1 {
            return Err(format!("its seq should be {}, but is {seq}", self.seq + 1));
        }
        if prev != self.hash {
            return Err("its prev is not the hash of the line before".to_owned());
        }
        *self = Self { seq, hash };
        Ok(())
    }

    /// Returns the tip before `line`, according to the `seq` and `prev` of the line.
    pub(crate) fn before(line: &[u8]) -> Option<Self> {
        let (seq, hash) = beginning(line)?;
        Some(Self { seq: seq.checked_sub(1)?, hash })
    }
}

fn head(seq: u64, prev: Hash) -> String {
    format!("{{\"seq\":{seq},\"prev\":\"{prev}\",")
}

/// Parses `seq` and `prev`, which must be formatted exactly as by [`head`].
fn beginning(line: &[u8]) -> Option<(u64, Hash)> {
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let digits = &digits[..digits.iter().position(|byte| !byte.is_ascii_digit())?];
    let seq: u64 = str::from_utf8(digits).ok()?.parse().ok()?;
    let rest = &line[7 + digits.len()..];
    let prev = Hash::parse(rest.strip_prefix(b",\"prev\":\"")?.get(..64)?)?;
    line.starts_with(head(seq, prev).as_bytes()).then_some((seq, prev))
}

/// Returns the hash at the end of a line, if it is the hash of the rest of the line.
fn checked_hash(line: &[u8]) -> Result<Hash, String> {
    let unsealed = "it does not end with a hash";
    let at = line.len().checked_sub(TAIL_BYTES).ok_or(unsealed)?;
    let (text, tail) = line.split_at(at);
    let digits = tail.strip_prefix(HASH.as_bytes()).and_then(|rest| rest.strip_suffix(END.as_bytes()));
    let written = digits.and_then(Hash::parse).ok_or(unsealed)?;
    if written == Hash::of(text) { Ok(written) } else { Err("its text does not have its hash".to_owned()) }
}

impl Hash {
    /// Returns the hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses exactly 64 lower-case hexadecimal digits.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        let (pairs, rest) = text.as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || serde::de::Error::custom("a hash is 64 lower-case hexadecimal digits");
        Self::parse(text.as_bytes()).ok_or_else(wrong)
    }
}
