//! Moments as answers show them.

use jiff::Timestamp;
use tidegate::Micros;

/// A moment of the limiter's clock.
pub(super) fn shown(at: Micros) -> String {
    let us = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(us).unwrap_or(Timestamp::MAX).to_string()
}
