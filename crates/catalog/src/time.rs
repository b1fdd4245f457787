//! Times, which the catalog stores as whole microseconds since the epoch.

use jiff::Timestamp;

/// Truncates a time to whole microseconds, as it is stored.
pub(crate) fn whole(at: Timestamp) -> Timestamp {
    of(at.as_microsecond())
}

/// Converts a stored number to a time. A number out of range, which this program never writes, becomes the
/// epoch.
pub(crate) fn of(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
