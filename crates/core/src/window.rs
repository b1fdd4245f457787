//! The window of a limit: its length, and where windows begin and end.

use std::fmt;

use crate::{Calendar, Micros};

/// The time in which a limit allows its `requests`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// A length of time. Windows are aligned to the Unix epoch where the algorithm has fixed ones.
    Period {
        /// Length in microseconds.
        us: u64,
    },
    /// A calendar day, week, month or year in a time zone; only for `fixed_window`.
    Calendar(Calendar),
}

/// A half-open interval of time, from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first microsecond inside the span.
    pub start: Micros,
    /// The first microsecond after the span.
    pub end: Micros,
}

impl Span {
    /// Returns whether `at` is inside the span.
    #[inline]
    pub fn contains(&self, at: Micros) -> bool {
        self.start <= at && at < self.end
    }

    /// Returns the length in microseconds.
    pub fn length_us(&self) -> u64 {
        self.end.since(self.start)
    }
}

/// Window names and their lengths in seconds, longest first. As in Envoy, a month is 30 days and a year
/// 365 days.
const NAMED: [(&str, u64); 7] = [
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("week", 7 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
];

impl Window {
    /// Returns a window of `seconds` seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self::Period { us: seconds.saturating_mul(1_000_000) }
    }

    /// Returns the window with this name: `second`, `minute`, `hour`, `day`, `week`, `month` (30 days) or
    /// `year` (365 days). Upper and lower case are equal.
    pub fn named(name: &str) -> Option<Self> {
        let (_, seconds) = NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(Self::seconds(*seconds))
    }

    /// Returns the window that contains `now`, aligned to the epoch or to the calendar.
    #[inline]
    pub fn span(&self, now: Micros) -> Span {
        match self {
            Self::Period { us } => {
                let start = Micros(now.0 - now.0 % us);
                Span { start, end: start.plus(*us) }
            }
            Self::Calendar(calendar) => calendar.span(now),
        }
    }

    /// Returns the length in microseconds. For a calendar window this is the longest that its unit can
    /// be: 25 hours for a day, 31 days and one hour for a month.
    #[inline]
    pub fn period_us(&self) -> u64 {
        match self {
            Self::Period { us } => *us,
            Self::Calendar(calendar) => {
                const HOUR_US: u64 = 3_600_000_000;
                HOUR_US
                    * match calendar.unit() {
                        crate::CalendarUnit::Day => 25,
                        crate::CalendarUnit::Week => 7 * 24 + 1,
                        crate::CalendarUnit::Month => 31 * 24 + 1,
                        crate::CalendarUnit::Year => 366 * 24,
                    }
            }
        }
    }
}

/// Duration suffixes and their lengths in microseconds, longest first.
const UNITS: [(u64, &str); 5] =
    [(3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms"), (1, "us")];

/// Formats the window as its name, as a duration in its largest whole unit, or as a calendar unit with its
/// time zone: `minute`, `90s`, `250ms`, `day in Europe/Berlin`.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = match self {
            Self::Calendar(calendar) => return write!(f, "{} in {}", calendar.unit(), calendar.zone_name()),
            Self::Period { us } => *us,
        };
        if let Some((name, _)) = NAMED.iter().find(|(_, seconds)| seconds * 1_000_000 == us) {
            return f.write_str(name);
        }
        for (unit_us, suffix) in UNITS {
            if us.is_multiple_of(unit_us) {
                return write!(f, "{}{suffix}", us / unit_us);
            }
        }
        Ok(())
    }
}
