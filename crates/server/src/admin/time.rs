//! Times in responses.

use jiff::Timestamp;
use tidegate::Micros;

/// Prints a time of the limiter's clock.
pub(crate) fn timestamp(at: Micros) -> String {
    let us = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(us).unwrap_or(Timestamp::MAX).to_string()
}
