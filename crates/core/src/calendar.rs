//! Calendar windows: days, weeks, months and years in a time zone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::{Micros, Span};

/// The unit of a calendar window. Hours and shorter units begin at the same moments in nearly every
/// time zone, so they are epoch-aligned windows instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarUnit {
    /// From midnight to midnight: 23 or 25 hours when the clocks change.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first day of a month to the first day of the next.
    Month,
    /// From January 1 to January 1.
    Year,
}

/// A calendar unit in a time zone.
///
/// The time zone database is compiled in, so that all nodes compute the same windows and nothing is
/// read from disk. A clone is one pointer and shares the cached window.
#[derive(Clone)]
pub struct Calendar(Arc<Zoned>);

struct Zoned {
    unit: CalendarUnit,
    zone: TimeZone,
    zone_name: String,
    /// The span computed last: start and length in seconds, 32 bits each. Computing a span takes
    /// microseconds, and it is valid for about a day or longer. Both numbers are in one atomic, so no
    /// reader sees the start of one span with the length of another.
    memo: AtomicU64,
}

const US_PER_SECOND: u64 = 1_000_000;

impl Calendar {
    /// Creates a calendar window in the time zone with this IANA name, such as `Europe/Berlin`. Returns
    /// `None` if there is no such zone.
    pub fn new(unit: CalendarUnit, zone_name: &str) -> Option<Self> {
        let zone = TimeZone::get(zone_name).ok()?;
        let (zone_name, memo) = (zone_name.to_owned(), AtomicU64::new(0));
        Some(Self(Arc::new(Zoned { unit, zone, zone_name, memo })))
    }

    /// Returns the unit of the window.
    pub fn unit(&self) -> CalendarUnit {
        self.0.unit
    }

    /// Returns the IANA name of the time zone.
    pub fn zone_name(&self) -> &str {
        &self.0.zone_name
    }

    /// Returns the window that contains `now`.
    pub fn span(&self, now: Micros) -> Span {
        let memo = self.0.memo.load(Ordering::Relaxed);
        let start = Micros((memo >> 32) * US_PER_SECOND);
        let span = Span { start, end: start.plus((memo & 0xffff_ffff) * US_PER_SECOND) };
        if span.contains(now) {
            return span;
        }
        let span = self.compute(now);
        let start_s = span.start.0 / US_PER_SECOND;
        let length_s = span.length_us() / US_PER_SECOND;
        if let (Ok(start_s), Ok(length_s)) = (u32::try_from(start_s), u32::try_from(length_s)) {
            self.0.memo.store(u64::from(start_s) << 32 | u64::from(length_s), Ordering::Relaxed);
        }
        span
    }

    fn compute(&self, now: Micros) -> Span {
        let now_us = i64::try_from(now.0).unwrap_or(i64::MAX);
        let latest = Timestamp::MAX - (366 * 24).hours();
        let at = Timestamp::from_microsecond(now_us).unwrap_or(latest).min(latest);
        // `latest` is a year before the last time that jiff can represent, so no bound overflows.
        let (start, end) = self.bounds(at).unwrap_or((at, latest));
        Span { start: micros_of(start), end: micros_of(end).max(now.plus(1)) }
    }

    fn bounds(&self, at: Timestamp) -> Result<(Timestamp, Timestamp), jiff::Error> {
        let first = self.first_date(at.to_zoned(self.0.zone.clone()).date())?;
        let next = self.next_date(first)?;
        let (start, end) = (self.start_of(first)?, self.start_of(next)?);
        if at < end {
            return Ok((start, end));
        }
        // The clocks went back across midnight: the local date is the old one again, but the new window
        // has begun and goes on.
        Ok((end, self.start_of(self.next_date(next)?)?))
    }

    /// Returns the first date of the window that contains `date`.
    fn first_date(&self, date: Date) -> Result<Date, jiff::Error> {
        Ok(match self.0.unit {
            CalendarUnit::Day => date,
            CalendarUnit::Week => {
                let since_monday = date.weekday().since(Weekday::Monday);
                date.checked_sub(i64::from(since_monday).days())?
            }
            CalendarUnit::Month => date.first_of_month(),
            CalendarUnit::Year => date.first_of_year(),
        })
    }

    /// Returns the first date of the window after the one that begins on `first`.
    fn next_date(&self, first: Date) -> Result<Date, jiff::Error> {
        match self.0.unit {
            CalendarUnit::Day => first.tomorrow(),
            CalendarUnit::Week => first.checked_add(1.week()),
            CalendarUnit::Month => first.last_of_month().tomorrow(),
            CalendarUnit::Year => first.last_of_year().tomorrow(),
        }
    }

    /// Returns the first moment of `date`: midnight, or the first moment that exists if the clocks skip
    /// midnight.
    fn start_of(&self, date: Date) -> Result<Timestamp, jiff::Error> {
        Ok(date.to_zoned(self.0.zone.clone())?.start_of_day()?.timestamp())
    }
}

/// Converts a timestamp. Times before the epoch become the epoch, so a window that reaches back further
/// begins there.
fn micros_of(at: Timestamp) -> Micros {
    Micros(u64::try_from(at.as_microsecond()).unwrap_or(0))
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.unit() == other.unit() && self.zone_name() == other.zone_name()
    }
}

impl Eq for Calendar {}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({:?}, {})", self.unit(), self.zone_name())
    }
}

impl fmt::Display for CalendarUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        })
    }
}
