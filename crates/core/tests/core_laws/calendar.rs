//! Calendar windows: where days, weeks, months and years begin in zones whose clocks change.

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use tidegate_core::{Algorithm, Calendar, CalendarUnit, Limit, Micros, Span, Window};
use tidegate_testkit::oracle::CivilWindows;
use tidegate_testkit::schedule::limits::{CALENDAR_UNITS, ZONES};

use crate::for_all;

const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;

fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
    Calendar::new(unit, zone).unwrap()
}

/// Returns the time at which a wall clock in the zone shows `wall`.
fn at(zone: &str, wall: &str) -> Micros {
    let wall: civil::DateTime = wall.parse().unwrap();
    let timestamp = wall.to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp();
    Micros(u64::try_from(timestamp.as_microsecond()).unwrap())
}

/// Returns the window that contains `now`, after asserting that a calendar without a cached window and the
/// brute-force oracle agree on it.
fn span(unit: CalendarUnit, zone: &str, now: Micros) -> Span {
    let span = calendar(unit, zone).span(now);
    assert_eq!(span, CivilWindows::new(unit, zone).span(now), "{unit} in {zone} at {now:?}");
    span
}

#[test]
fn days_are_short_and_long_when_the_clocks_change() {
    let cases = [
        ("Europe/Berlin", "2024-03-30T12:00", 24 * 60),
        ("Europe/Berlin", "2024-03-31T12:00", 23 * 60),
        ("Europe/Berlin", "2024-10-27T12:00", 25 * 60),
        ("America/New_York", "2024-03-10T12:00", 23 * 60),
        ("America/New_York", "2024-11-03T12:00", 25 * 60),
        ("Australia/Lord_Howe", "2024-04-07T12:00", 24 * 60 + 30),
        ("Australia/Lord_Howe", "2024-10-06T12:00", 23 * 60 + 30),
        ("Asia/Kolkata", "2024-03-31T12:00", 24 * 60),
        ("America/Sao_Paulo", "2018-02-17T12:00", 25 * 60),
        ("America/Sao_Paulo", "2018-11-04T12:00", 23 * 60),
        ("America/Sao_Paulo", "2024-02-17T12:00", 24 * 60),
    ];
    for (zone, noon, minutes) in cases {
        let day = span(CalendarUnit::Day, zone, at(zone, noon));
        assert_eq!(day.length_us(), minutes * 60_000_000, "{noon} in {zone}");
    }
}

/// In the night in which Sao Paulo's clocks went from midnight to one, the day began at one.
#[test]
fn a_day_without_midnight_begins_at_its_first_moment() {
    let zone = "America/Sao_Paulo";
    let day = span(CalendarUnit::Day, zone, at(zone, "2018-11-04T12:00"));
    assert_eq!(day.start, at(zone, "2018-11-04T01:00"));
    assert_eq!(day.start, at(zone, "2018-11-03T23:59:59").plus(1_000_000));
}

/// The hour that comes twice belongs to the same day both times.
#[test]
fn an_hour_that_comes_twice_is_in_one_day() {
    let zone = "Europe/Berlin";
    let first = at(zone, "2024-10-27T02:30");
    let day = span(CalendarUnit::Day, zone, first);
    assert_eq!(day, span(CalendarUnit::Day, zone, first.plus(HOUR_US)));
    assert_eq!(day.start, at(zone, "2024-10-27T00:00"));
    assert_eq!(day.end, at(zone, "2024-10-28T00:00"));
}

#[test]
fn weeks_months_and_years_have_the_days_the_calendar_says() {
    let days = |unit, zone, noon| span(unit, zone, at(zone, noon)).length_us() / HOUR_US;
    for zone in ZONES {
        assert_eq!(days(CalendarUnit::Month, zone, "2023-02-14T12:00").div_ceil(24), 28, "{zone}");
        assert_eq!(days(CalendarUnit::Month, zone, "2024-02-14T12:00").div_ceil(24), 29, "{zone}");
        assert_eq!(days(CalendarUnit::Month, zone, "2100-02-14T12:00").div_ceil(24), 28, "{zone}");
        assert_eq!(days(CalendarUnit::Year, zone, "2023-06-14T12:00"), 365 * 24, "{zone}");
        assert_eq!(days(CalendarUnit::Year, zone, "2024-06-14T12:00"), 366 * 24, "{zone}");
        assert_eq!(days(CalendarUnit::Year, zone, "2000-06-14T12:00") / 24, 366, "{zone}");
    }
    assert_eq!(days(CalendarUnit::Week, "Europe/Berlin", "2024-03-30T12:00"), 7 * 24 - 1);
    assert_eq!(days(CalendarUnit::Week, "Europe/Berlin", "2024-10-21T00:00"), 7 * 24 + 1);
    assert_eq!(days(CalendarUnit::Month, "America/New_York", "2024-11-30T23:59"), 30 * 24 + 1);
}

#[test]
fn weeks_run_from_monday_to_monday() {
    for zone in ZONES {
        for day in 0..14 {
            let noon = at(zone, "2024-12-23T12:00").plus(day * DAY_US);
            let monday = if day < 7 { "2024-12-23T00:00" } else { "2024-12-30T00:00" };
            assert_eq!(span(CalendarUnit::Week, zone, noon).start, at(zone, monday), "{zone}, day {day}");
        }
    }
}

/// Each window begins where the one before ends, from the epoch to the latest time of the stores, in
/// various zones.
#[test]
fn windows_tile_time() {
    for zone in ZONES {
        for unit in CALENDAR_UNITS {
            let calendar = calendar(unit, zone);
            let mut now = Micros(0);
            assert_eq!(calendar.span(now).start, Micros(0), "nothing was before the epoch");
            while now.0 < 1 << 52 {
                let span = calendar.span(now);
                assert_eq!(span.start, now, "{unit} in {zone}: a gap or an overlap");
                assert!(span.contains(now) && span.contains(Micros(span.end.0 - 1)));
                assert!(span.length_us() <= Window::Calendar(calendar.clone()).period_us(), "{span:?}");
                now = span.end;
            }
        }
    }
}

/// Windows are also adjacent around every clock change in the time zone database.
#[test]
fn windows_tile_time_around_every_change_in_every_zone() {
    let since = Timestamp::from_second(86_400).unwrap();
    let until = Timestamp::from_second(2_100_000_000).unwrap();
    for zone in jiff::tz::db().available() {
        let name = zone.as_str();
        let tz = TimeZone::get(name).unwrap();
        let changes = tz.following(since).map(|change| change.timestamp()).take_while(|at| *at < until);
        let changes: Vec<_> = changes.collect();
        for unit in CALENDAR_UNITS {
            let calendar = calendar(unit, name);
            for change in &changes {
                let change = Micros(u64::try_from(change.as_microsecond()).unwrap());
                let around = [change.minus(HOUR_US), change.minus(1), change, change.plus(HOUR_US / 2)];
                for now in around {
                    tiles(&calendar, now);
                }
            }
        }
    }
}

fn tiles(calendar: &Calendar, now: Micros) {
    let span = calendar.span(now);
    assert!(span.contains(now), "{calendar:?} at {now:?}: {span:?}");
    for inside in [span.start, Micros(span.start.0.midpoint(span.end.0)), Micros(span.end.0 - 1)] {
        assert_eq!(calendar.clone().span(inside), span, "{calendar:?} at {inside:?}");
        assert_eq!(Calendar::new(calendar.unit(), calendar.zone_name()).unwrap().span(inside), span);
    }
    assert_eq!(calendar.span(span.end).start, span.end, "{calendar:?} after {span:?}");
    if span.start > Micros(0) {
        assert_eq!(calendar.span(span.start.minus(1)).end, span.start, "{calendar:?} before {span:?}");
    }
}

/// A limit per day allows each day's requests once, also on the days when the clocks change.
#[test]
fn a_limit_per_day_is_whole_again_at_local_midnight() {
    for (zone, noon) in [("Europe/Berlin", "2024-03-31T12:00"), ("America/New_York", "2024-11-03T12:00")] {
        let window = Window::Calendar(calendar(CalendarUnit::Day, zone));
        let limit = Limit::new(Algorithm::FixedWindow, 2, window).unwrap();
        let (mut state, noon) = (limit.fresh(), at(zone, noon));
        let midnight = limit.window().span(noon).end;
        assert!(limit.charge(&mut state, 2, noon).allowed());
        let denied = limit.charge(&mut state, 1, noon);
        assert_eq!(denied.retry_after_us(), Some(midnight.since(noon)), "{zone}");
        assert!(!limit.charge(&mut state, 1, midnight.minus(1)).allowed(), "{zone}");
        assert!(limit.charge(&mut state, 1, midnight).allowed(), "{zone}");
    }
}

/// A calendar caches its last window. Called in any order, it returns the same as one without a cache.
#[test]
fn what_was_asked_before_changes_no_answer() {
    let zones: Vec<_> = ZONES.to_vec();
    let units: Vec<_> = CALENDAR_UNITS.to_vec();
    let moments = proptest::collection::vec(0_u64..1 << 53, 1..20);
    let inputs = (proptest::sample::select(zones), proptest::sample::select(units), moments);
    for_all(200, inputs, |(zone, unit, moments)| {
        let caching = calendar(unit, zone);
        for now in moments.into_iter().map(Micros) {
            assert_eq!(caching.span(now), calendar(unit, zone).span(now), "{unit} in {zone}");
            let next = caching.span(now).end;
            assert_eq!(caching.span(next), calendar(unit, zone).span(next), "{unit} in {zone}");
        }
    });
}
