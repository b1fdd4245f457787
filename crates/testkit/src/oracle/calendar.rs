//! Calendar windows by brute force: walk through time, look at the date on the wall, and see where
//! it changes to another day, week, month or year.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tidegate_core::{CalendarUnit, Micros, Span};

const HOUR_US: u64 = 3_600_000_000;

thread_local! {
    /// Spans already walked, by unit and zone: their ends by their starts.
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
    /// The windows of `unit` in the zone of that name.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn new(unit: CalendarUnit, zone_name: &str) -> Self {
        let zone = TimeZone::get(zone_name).expect("the limit was built with this zone");
        Self { unit, zone, name: (unit.to_string(), zone_name.to_owned()) }
    }

    /// When the window around `at` began.
    pub fn start_of(&self, at: Micros) -> Micros {
        self.span(at).start
    }

    /// The window around `at`.
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
        // Days may be short, and everything longer is made of days.
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

    /// The first moment of `right`'s window, which begins after `left`; the epoch if both share one.
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

    /// What all moments of one window, and no others, have in common: its first date.
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
