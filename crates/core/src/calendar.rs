//! Calendar windows: a day, week, month or year as people in a time zone count them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::{Micros, Span};

/// The calendar units a window can have. Shorter ones are the same in every time zone, give or take
/// the few with half-hour offsets, and are epoch-aligned windows instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarUnit {
    /// Midnight to midnight: 23 or 25 hours when the clocks change.
    Day,
    /// Monday to Monday.
    Week,
    /// First to first.
    Month,
    /// New Year to New Year.
    Year,
}

/// A calendar unit in a time zone. The time zone database is compiled in, so that every node
/// answers alike and nothing is read from disk. Clones are one word, and share what was worked out.
#[derive(Clone)]
pub struct Calendar(Arc<Zoned>);

struct Zoned {
    unit: CalendarUnit,
    zone: TimeZone,
    zone_name: String,
    /// The span last answered: start and length in seconds, 32 bits each. Finding a span costs
    /// microseconds, and the answer holds for a day or longer. Both halves live in one atomic, so
    /// no reader can see the start of one span with the length of another.
    memo: AtomicU64,
}

const US_PER_SECOND: u64 = 1_000_000;

impl Calendar {
    /// A calendar window in the zone of that IANA name, such as `Europe/Berlin`; `None` if there is
    /// no such zone.
    pub fn new(unit: CalendarUnit, zone_name: &str) -> Option<Self> {
        let zone = TimeZone::get(zone_name).ok()?;
        let (zone_name, memo) = (zone_name.to_owned(), AtomicU64::new(0));
        Some(Self(Arc::new(Zoned { unit, zone, zone_name, memo })))
    }

    /// The unit.
    pub fn unit(&self) -> CalendarUnit {
        self.0.unit
    }

    /// The IANA name of the time zone.
    pub fn zone_name(&self) -> &str {
        &self.0.zone_name
    }

    /// The window that contains `now`.
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
        // `latest` is a year before the end of jiff's time, so neither side can fall off it.
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
        // The clocks went back across midnight. The new day, once begun, goes on.
        Ok((end, self.start_of(self.next_date(next)?)?))
    }

    /// The first date of the unit that `date` is in.
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

    /// The first date of the unit after the one that begins with `first`.
    fn next_date(&self, first: Date) -> Result<Date, jiff::Error> {
        match self.0.unit {
            CalendarUnit::Day => first.tomorrow(),
            CalendarUnit::Week => first.checked_add(1.week()),
            CalendarUnit::Month => first.last_of_month().tomorrow(),
            CalendarUnit::Year => first.last_of_year().tomorrow(),
        }
    }

    /// Where midnight does not exist, the day begins at the first moment that does.
    fn start_of(&self, date: Date) -> Result<Timestamp, jiff::Error> {
        Ok(date.to_zoned(self.0.zone.clone())?.start_of_day()?.timestamp())
    }
}

/// Windows that reach back before the epoch begin at the epoch.
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
