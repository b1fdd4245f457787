//! Calendar windows by brute force: steps through time and finds where the local date changes to another
//! day, week, month or year.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tidegate_core::{CalendarUnit, Micros, Span};

const HOUR_US: u64 = 3_600_000_000;

thread_local! {
    /// Cached spans by unit and zone: a map from start to end.
    static WALKED: RefCell<HashMap<(String, String), BTreeMap<Micros, Micros>>> = RefCell::default();
}

/// The days, weeks, months or years of a time zone.
#[derive(Clone)]
pub struct CivilWindows {
    unit: CalendarUnit,
    zone: TimeZone,
    name: (String, String),
}

impl CivilWindows {
    /// Returns the windows of `unit` in the time zone with this IANA name.
    ///
    /// # Panics
    /// Panics if there is no such zone.
    pub fn new(unit: CalendarUnit, zone_name: &str) -> Self {
        let zone = TimeZone::get(zone_name).expect("the limit was built with this zone");
        Self { unit, zone, name: (unit.to_string(), zone_name.to_owned()) }
    }

    /// Returns the start of the window that contains `at`.
    pub fn start_of(&self, at: Micros) -> Micros {
        self.span(at).start
    }

    /// Returns the window that contains `at`.
    pub fn span(&self, at: Micros) -> Span {
        WALKED.with_borrow_mut(|walked| {
            let spans = walked.entry(self.name.clone()).or_default();
            let known = spans.range(..=at).next_back().map(|(start, end)| Span { start: *start, end: *end });
            known.filter(|span| span.contains(at)).unwrap_or_else(|| {
                let span = self.walk(at);
                spans.insert(span.start, span.end);
                span
            })
        })
    }

    fn walk(&self, at: Micros) -> Span {
        let label = self.label(at);
        // The step must be shorter than the shortest window: a day may be short, longer units have days.
        let stride_us = if self.unit == CalendarUnit::Day { HOUR_US } else { 12 * HOUR_US };
        let mut inside = at;
        while inside.0 > 0 && self.label(inside.minus(stride_us)) == label {
            inside = inside.minus(stride_us);
        }
        let start = match inside.0 {
            0 => inside,
            _ => self.change(inside.minus(stride_us), inside),
        };
        inside = at;
        while self.label(inside.plus(stride_us)) == label {
            inside = inside.plus(stride_us);
        }
        Span { start, end: self.change(inside, inside.plus(stride_us)) }
    }

    /// Returns the first moment of the window that contains `right`, which begins after `left`; or `left`,
    /// the epoch, if both are in the same window.
    fn change(&self, mut left: Micros, mut right: Micros) -> Micros {
        let label = self.label(right);
        if self.label(left) == label {
            return left;
        }
        while left.plus(1) < right {
            let middle = Micros(left.0.midpoint(right.0));
            if self.label(middle) == label {
                right = middle;
            } else {
                left = middle;
            }
        }
        right
    }

    /// Returns the first date of the window that contains `at`, which identifies the window.
    fn label(&self, at: Micros) -> Date {
        let us = i64::try_from(at.0).expect("tests stay below the year 9999");
        let timestamp = Timestamp::from_microsecond(us).expect("tests stay below the year 9999");
        let mut date = self.zone.to_datetime(timestamp).date();
        let begins = |date: Date| match self.unit {
            CalendarUnit::Day => true,
            CalendarUnit::Week => date.weekday() == jiff::civil::Weekday::Monday,
            CalendarUnit::Month => date.day() == 1,
            CalendarUnit::Year => date.day() == 1 && date.month() == 1,
        };
        while !begins(date) {
            date = date.yesterday().expect("tests stay above the year -9999");
        }
        date
    }
}
