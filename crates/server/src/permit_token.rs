//! Permits as clients hold them: tokens that identify slots.
//!
//! The service stores nothing for a permit. The token contains the request that the slots were acquired for, the ID
//! of the slots and how long they are held, so that any node can renew and release them. It is not signed: a forged token
//! would need the right ID, which is random.
//!
//! ```text
//! version u8 · slot ID u64 · time-out in µs (0: nothing is held) · domain · descriptors
//! descriptors: how many, then for each: how many entries, then for each: key, value
//! ```
//!
//! The ID is big-endian; other numbers and the lengths of texts are LEB128. All of it is base64url,
//! without padding.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use thiserror::Error;
use tidegate::{Request, SlotId};

use crate::bounds::{Bounds, Refusal};

const VERSION: u8 = 1;

/// The content of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitToken {
    /// ID of the slots.
    pub slot: SlotId,
    /// How long they are held without renewal; `None` if no concurrency limit applied.
    pub timeout: Option<Duration>,
    domain: String,
    descriptors: Vec<Vec<(String, String)>>,
}

/// Why a token is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It is not a permit, or incomplete.
    #[error("the permit was not issued by acquire: {0}; send it unchanged")]
    Malformed(&'static str),
    /// It has another version.
    #[error("the permit has version {found}, but this service supports version 1; acquire a new one")]
    Version {
        /// The version.
        found: u8,
    },
    /// Its request exceeds a bound.
    #[error("the permit was not issued by acquire: {0}")]
    Refused(#[from] Refusal),
}

/// Encodes the token of slots that were acquired for a request.
pub fn encode(request: &Request<'_>, slot: SlotId, timeout: Option<Duration>) -> String {
    let mut out = Vec::with_capacity(64);
    out.push(VERSION);
    out.extend_from_slice(&slot.0.to_be_bytes());
    put_number(timeout.map_or(0, |timeout| timeout.as_micros() as u64), &mut out);
    put_text(request.domain(), &mut out);
    put_number(request.descriptors().count() as u64, &mut out);
    for (entries, _) in request.descriptors() {
        put_number(entries.len() as u64, &mut out);
        for (key, value) in entries {
            put_text(key, &mut out);
            put_text(value, &mut out);
        }
    }
    URL_SAFE_NO_PAD.encode(out)
}

/// Decodes a token.
///
/// # Errors
/// If it is not a permit, or its request exceeds a bound.
pub fn decode(token: &str, bounds: &Bounds) -> Result<PermitToken, TokenError> {
    // Base64 encodes 3 bytes in 4 characters.
    bounds.message(token.len() / 4 * 3)?;
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| TokenError::Malformed("it is not base64url"))?;
    let mut rest = Rest(&bytes);
    let [version] = rest.array()?;
    if version != VERSION {
        return Err(TokenError::Version { found: version });
    }
    let slot = SlotId(u64::from_be_bytes(rest.array()?));
    let timeout = Some(rest.number()?).filter(|us| *us > 0).map(Duration::from_micros);
    let domain = rest.text()?.to_owned();
    bounds.domain(&domain)?;
    let descriptors = rest.descriptors(bounds)?;
    if !rest.0.is_empty() {
        return Err(TokenError::Malformed("something follows it"));
    }
    Ok(PermitToken { slot, timeout, domain, descriptors })
}

impl PermitToken {
    /// Returns the request that the slots were acquired for.
    pub fn request(&self) -> Request<'_> {
        let mut descriptors = self.descriptors.iter();
        let first = descriptors.next().map(|first| entries_of(first)).unwrap_or_default();
        descriptors.fold(Request::new(&self.domain, first), |request, next| request.and(entries_of(next)))
    }
}

fn entries_of(descriptor: &[(String, String)]) -> Vec<(&str, &str)> {
    descriptor.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// The bytes that are not decoded yet.
struct Rest<'b>(&'b [u8]);

const SHORT: TokenError = TokenError::Malformed("its end is missing");

impl<'b> Rest<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], TokenError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TokenError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64, TokenError> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(TokenError::Malformed("a number is too large"))
    }

    fn text(&mut self) -> Result<&'b str, TokenError> {
        let length = usize::try_from(self.number()?).map_err(|_| SHORT)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| TokenError::Malformed("a text is not UTF-8"))
    }

    /// Decodes a count of items, which cannot be more than the remaining bytes.
    fn count(&mut self) -> Result<usize, TokenError> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len()).ok_or(SHORT)
    }

    fn descriptors(&mut self, bounds: &Bounds) -> Result<Vec<Vec<(String, String)>>, TokenError> {
        let count = self.count()?;
        bounds.descriptors(count)?;
        if count == 0 {
            return Err(TokenError::Malformed("it has no descriptors"));
        }
        (0..count).map(|_| self.entries(bounds)).collect()
    }

    fn entries(&mut self, bounds: &Bounds) -> Result<Vec<(String, String)>, TokenError> {
        let count = self.count()?;
        bounds.entries(count)?;
        let entry = |_| {
            let (key, value) = (self.text()?, self.text()?);
            // Values may exceed the bound for clients: longer ones were replaced by a hash.
            bounds.entry(key, "")?;
            Ok((key.to_owned(), value.to_owned()))
        };
        (0..count).map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token() -> String {
        let request = Request::new("exports", [("user", "ann"), ("kind", "größer")]).and([("ip", "")]);
        encode(&request, SlotId(u64::MAX - 7), Some(Duration::from_secs(90)))
    }

    #[test]
    fn a_token_reads_back_as_it_was_written() {
        let read = decode(&token(), &Bounds::default()).unwrap();
        assert_eq!((read.slot, read.timeout), (SlotId(u64::MAX - 7), Some(Duration::from_secs(90))));
        let request = read.request();
        assert_eq!(request.domain(), "exports");
        let descriptors: Vec<_> = request.descriptors().map(|(entries, _)| entries.to_vec()).collect();
        assert_eq!(descriptors, [vec![("user", "ann"), ("kind", "größer")], vec![("ip", "")]]);
        assert_eq!(encode(&request, read.slot, read.timeout), token());
    }

    #[test]
    fn nothing_held_reads_back_as_nothing_held() {
        let token = encode(&Request::new("d", [("k", "v")]), SlotId(5), None);
        assert_eq!(decode(&token, &Bounds::default()).unwrap().timeout, None);
    }

    #[test]
    fn every_part_of_a_token_is_refused_and_so_is_more_than_one() {
        let whole = URL_SAFE_NO_PAD.decode(token()).unwrap();
        for end in 0..whole.len() {
            let part = URL_SAFE_NO_PAD.encode(&whole[..end]);
            assert!(decode(&part, &Bounds::default()).is_err(), "the first {end} bytes");
        }
        let more = URL_SAFE_NO_PAD.encode([whole.as_slice(), b"x"].concat());
        let error = decode(&more, &Bounds::default()).unwrap_err();
        assert_eq!(error, TokenError::Malformed("something follows it"));
        assert!(matches!(decode("a b", &Bounds::default()), Err(TokenError::Malformed(_))));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = URL_SAFE_NO_PAD.decode(token()).unwrap();
        bytes[0] = 2;
        let error = decode(&URL_SAFE_NO_PAD.encode(bytes), &Bounds::default()).unwrap_err();
        assert_eq!(error, TokenError::Version { found: 2 });
    }

    #[test]
    fn a_token_beyond_a_bound_is_refused() {
        for bounds in [
            Bounds { descriptors: 1, ..Bounds::default() },
            Bounds { entries: 1, ..Bounds::default() },
            Bounds { key_bytes: 3, ..Bounds::default() },
            Bounds { message_bytes: 20, ..Bounds::default() },
        ] {
            assert!(matches!(decode(&token(), &bounds), Err(TokenError::Refused(_))), "{bounds:?}");
        }
    }

    #[test]
    fn a_value_that_was_shortened_to_more_than_its_bound_can_be_released() {
        assert!(decode(&token(), &Bounds { value_bytes: 2, ..Bounds::default() }).is_ok());
    }

    proptest! {
        #![proptest_config(tidegate_testkit::cases(256))]

        #[test]
        fn no_bytes_make_reading_panic_or_take_long(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            if let Some(version) = bytes.first_mut() {
                *version = VERSION;
            }
            let _ = decode(&URL_SAFE_NO_PAD.encode(&bytes), &Bounds::default());
        }
    }
}
