//! Times, which the catalog keeps as whole microseconds since 1970.

use jiff::Timestamp;

/// The same moment without what is finer than a microsecond, as it will be read again.
pub(crate) fn whole(at: Timestamp) -> Timestamp {
    of(at.as_microsecond())
}

/// From what is stored. Numbers that are no time at all, which only a stranger can have written, are 1970.
pub(crate) fn of(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
