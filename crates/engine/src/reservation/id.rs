//! The IDs of reservations.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate_core::Micros;

const BYTES: usize = 16;

/// The first bytes of the ID of a reservation that is not stored.
const UNKEPT: [u8; 3] = [0, 0xff, 0];

/// The sizes of the estimate and of the expiry in such an ID: up to 2^56 units, and milliseconds for 8,000 years.
const ESTIMATE_BYTES: usize = 7;
const UNTIL_BYTES: usize = 6;

/// The ID of a reservation: 128 random bits, which cannot be guessed. Prints as base64url. A reservation for which no
/// limit was charged is not stored: its ID contains the estimate and the expiry, because settling it changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationId([u8; BYTES]);

impl ReservationId {
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        if bytes.starts_with(&UNKEPT) {
            bytes[0] = 1;
        }
        Ok(Self(bytes))
    }

    /// Returns the ID of a reservation for which no limit was charged.
    pub(crate) fn unkept(estimate: u64, until: Micros) -> Self {
        let mut bytes = [0; BYTES];
        let (tag, rest) = bytes.split_at_mut(UNKEPT.len());
        let (of_estimate, of_until) = rest.split_at_mut(ESTIMATE_BYTES);
        tag.copy_from_slice(&UNKEPT);
        of_estimate.copy_from_slice(&estimate.to_be_bytes()[8 - ESTIMATE_BYTES..]);
        of_until.copy_from_slice(&(until.0.div_ceil(1_000)).to_be_bytes()[8 - UNTIL_BYTES..]);
        Self(bytes)
    }

    /// Returns the estimate and the expiry of a reservation for which no limit was charged.
    pub(crate) fn as_unkept(self) -> Option<(u64, Micros)> {
        let rest = self.0.strip_prefix(&UNKEPT)?;
        let (of_estimate, of_until) = rest.split_at(ESTIMATE_BYTES);
        let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some((number(of_estimate), Micros(number(of_until).saturating_mul(1_000))))
    }

    /// Parses a printed ID. Returns `None` for a text that is not a valid ID.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; BYTES];
        // The buffer is no larger than needed, so a longer text fails to decode.
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        (length == BYTES).then_some(Self(bytes))
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
