//! The vectors of the algorithms that count the charges of a window.

use jiff::civil::date;
use jiff::tz::TimeZone;
use tidegate_core::{Algorithm, Calendar, CalendarUnit, Limit, MAX_COUNT, Micros, Window};
use tidegate_testkit::vector::{Recorder, Vector};

use super::START;
use super::common::{self, limit};
use super::random::{Dice, walk};

const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;
const YEAR_US: u64 = 365 * 24 * HOUR_US;
const U32_MAX: u64 = u32::MAX as u64;

/// Returns the start of a window of this length, some time in 2023.
fn seam(period_us: u64) -> Micros {
    Micros(START.0 - START.0 % period_us + period_us)
}

/// Random walks over limits of one algorithm.
fn walks(seed: u64, algorithm: Algorithm, limits: &[(u64, u64)]) -> impl Iterator<Item = Vector> {
    let mut dice = Dice::new(seed);
    limits.iter().copied().enumerate().map(move |(index, (requests, period_us))| {
        let clock_steps = index % 2 == 1;
        let kind = if clock_steps { "walk with clock steps" } else { "walk" };
        let limit = limit(algorithm, requests, period_us);
        walk(&format!("{kind}, {requests} per {}", limit.window()), &limit, &mut dice, clock_steps)
    })
}

const WALKED: [(u64, u64); 6] = [
    (5, SECOND_US),
    (10, MINUTE_US),
    (U32_MAX, YEAR_US),
    (3, 7_000_003),
    (1 << 52, 30 * 24 * HOUR_US),
    (1_000, HOUR_US),
];

/// A limit of 2^53, charged and refunded at its bounds.
fn huge(algorithm: Algorithm, name: &str) -> Vector {
    let limit = limit(algorithm, MAX_COUNT, YEAR_US);
    let recorder = Recorder::new(name, &limit, seam(YEAR_US)).charge(MAX_COUNT - 1).after(YEAR_US / 3);
    let recorder = recorder.charge(1).charge(1).refund(1).charge(1).take(MAX_COUNT).charge(1);
    let recorder = recorder.at_retry(1).charge(1).at_retry(0).charge(1).charge(MAX_COUNT);
    recorder.at_retry(1).charge(MAX_COUNT).at_retry(0).charge(MAX_COUNT).finish()
}

fn zero(algorithm: Algorithm) -> Vector {
    let limit = limit(algorithm, 0, SECOND_US);
    let recorder = Recorder::new("zero requests", &limit, START).peek().charge(0).charge(1);
    recorder.refund(1).take(1).after(SECOND_US).charge(1).after(SECOND_US).peek().finish()
}

fn one_microsecond(algorithm: Algorithm) -> Vector {
    let limit = limit(algorithm, 2, 1);
    let recorder = Recorder::new("a window of one microsecond", &limit, START).charge(2).charge(1);
    recorder.after(1).charge(1).charge(2).after(1).charge(2).after(2).charge(2).finish()
}

pub(super) fn fixed_window() -> Vec<Vector> {
    let algorithm = Algorithm::FixedWindow;
    let mut vectors = common::vectors(&limit(algorithm, 5, MINUTE_US));
    let end = seam(MINUTE_US);
    let recorder =
        Recorder::new("twice the limit at the seam of two windows", &limit(algorithm, 5, MINUTE_US), end);
    let recorder = recorder.before(1).charge(5).charge(1).after(1).charge(5).charge(1);
    vectors.push(recorder.after(MINUTE_US - 1).charge(1).after(1).charge(6).charge(5).finish());
    let recorder =
        Recorder::new("a refund goes into the current window", &limit(algorithm, 5, MINUTE_US), end);
    vectors.push(recorder.before(1).charge(4).after(1).refund(4).charge(3).refund(1).charge(3).finish());
    vectors.extend([huge(algorithm, "2^53 requests a year"), zero(algorithm), one_microsecond(algorithm)]);
    vectors.extend(calendar_days());
    vectors.extend(walks(1, algorithm, &WALKED));
    vectors
}

/// Calendar windows, charged around a boundary of two windows.
fn calendar_days() -> Vec<Vector> {
    let cases = [
        ("23 hours on the day the clocks go forward", CalendarUnit::Day, "Europe/Berlin", date(2024, 3, 31)),
        ("25 hours on the day the clocks go back", CalendarUnit::Day, "Europe/Berlin", date(2024, 10, 27)),
        ("a day that begins at one", CalendarUnit::Day, "America/Sao_Paulo", date(2018, 11, 4)),
        ("half an hour less", CalendarUnit::Day, "Australia/Lord_Howe", date(2024, 10, 6)),
        ("a week with the clocks going back", CalendarUnit::Week, "America/New_York", date(2024, 10, 28)),
        ("a month of 29 days", CalendarUnit::Month, "Asia/Kolkata", date(2024, 2, 1)),
        ("a leap year", CalendarUnit::Year, "America/New_York", date(2024, 1, 1)),
    ];
    cases.map(|(name, unit, zone, first)| calendar(name, unit, zone, first)).into()
}

fn calendar(name: &str, unit: CalendarUnit, zone: &str, first: jiff::civil::Date) -> Vector {
    let window = Window::Calendar(Calendar::new(unit, zone).unwrap());
    let limit = Limit::new(Algorithm::FixedWindow, 3, window).unwrap();
    let begins = first.to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp().as_microsecond();
    let start = Micros(u64::try_from(begins).unwrap());
    let recorder = Recorder::new(name, &limit, start).before(1).charge(3).charge(1);
    let recorder = recorder.at_retry(0).charge(3).after(5 * HOUR_US).charge(1).at_retry(1).charge(1);
    recorder.at_retry(0).charge(1).before(2).charge(1).finish()
}

pub(super) fn sliding_window() -> Vec<Vector> {
    let algorithm = Algorithm::SlidingWindow;
    let mut vectors = common::vectors(&limit(algorithm, 5, MINUTE_US));
    let tens = limit(algorithm, 10, 10 * SECOND_US);
    let start = seam(10 * SECOND_US);
    let recorder = Recorder::new("the previous window by its overlap", &tens, start).charge(10);
    let recorder = recorder.after(10 * SECOND_US).charge(1).after(SECOND_US - 1).charge(1).after(1).charge(1);
    let recorder = recorder.after(4 * SECOND_US).charge(4).charge(1).after(5 * SECOND_US).charge(5).charge(1);
    vectors.push(recorder.at_retry(1).charge(1).at_retry(0).charge(1).after(20 * SECOND_US).peek().finish());
    let sevenths = limit(algorithm, 7, SECOND_US);
    let recorder = Recorder::new("weights that do not come out even", &sevenths, seam(SECOND_US)).charge(3);
    let mut recorder = recorder.after(SECOND_US).charge(4).charge(1);
    for _ in 0..5 {
        recorder = recorder.at_retry(1).charge(1).at_retry(0).charge(1).charge(2);
    }
    vectors.push(recorder.finish());
    let recorder = Recorder::new("a refund reaches into the previous window", &tens, start).charge(6);
    let recorder = recorder.after(10 * SECOND_US).charge(2).refund(5).charge(1).refund(9).charge(10);
    vectors.push(recorder.after(30 * SECOND_US).refund(1).charge(10).finish());
    vectors.extend([huge(algorithm, "2^53 requests a year"), zero(algorithm), one_microsecond(algorithm)]);
    vectors.extend(walks(2, algorithm, &WALKED));
    vectors
}

pub(super) fn sub_windows() -> Vec<Vector> {
    let minutes = Algorithm::SubWindows { buckets: 60 };
    let hourly = limit(minutes, 5, HOUR_US);
    let mut vectors = common::vectors(&hourly);
    let start = seam(HOUR_US);
    let recorder =
        Recorder::new("an hour of 60 buckets", &hourly, start).before(1).charge(2).after(1).charge(1);
    let recorder = recorder.after(30 * MINUTE_US).charge(2).charge(1).at_retry(1).charge(1);
    let recorder = recorder.at_retry(0).charge(2).charge(1).at_retry(1).charge(1).at_retry(0).charge(1);
    vectors.push(recorder.refund(2).charge(3).charge(4).at_retry(0).charge(4).finish());
    let uneven = limit(Algorithm::SubWindows { buckets: 7 }, 3, SECOND_US);
    let mut recorder = Recorder::new("buckets that do not divide the period", &uneven, seam(SECOND_US));
    for _ in 0..5 {
        recorder = recorder.charge(1).after(142_857).charge(1).after(1).charge(1).charge(1).at_retry(0);
    }
    vectors.push(recorder.finish());
    let single = limit(Algorithm::SubWindows { buckets: 1 }, 3, SECOND_US);
    let recorder =
        Recorder::new("one bucket is a fixed window", &single, seam(SECOND_US)).before(1).charge(3);
    vectors.push(recorder.charge(1).after(1).charge(3).charge(1).at_retry(0).charge(1).finish());
    let crowded = limit(Algorithm::SubWindows { buckets: 10_000 }, 3, 2);
    let recorder =
        Recorder::new("more buckets than microseconds", &crowded, START).charge(2).after(1).charge(1);
    vectors
        .push(recorder.charge(1).after(1).charge(3).charge(2).after(1).charge(1).after(2).charge(3).finish());
    vectors.extend([huge(minutes, "2^53 requests a year"), zero(minutes), one_microsecond(minutes)]);
    vectors.extend(walks(3, minutes, &WALKED[..4]));
    let sevenths = [(4, SECOND_US), (7, 7_000_000), (U32_MAX, 30 * 24 * HOUR_US), (2, 100)];
    vectors.extend(walks(4, Algorithm::SubWindows { buckets: 7 }, &sevenths));
    vectors
}

pub(super) fn sliding_log() -> Vec<Vector> {
    let algorithm = Algorithm::SlidingLog;
    let minute = limit(algorithm, 5, MINUTE_US);
    let mut vectors = common::vectors(&minute);
    let recorder = Recorder::new("exact over any window", &minute, START).charge(1).after(1).charge(2);
    let recorder = recorder.after(1).charge(2).charge(1).at_retry(1).charge(1).at_retry(0).charge(1);
    let recorder = recorder.charge(2).at_retry(0).charge(2).charge(5).at_retry(1).charge(5);
    vectors.push(recorder.at_retry(0).charge(5).finish());
    let recorder = Recorder::new("the newest are refunded first", &minute, START).charge(3).after(SECOND_US);
    let recorder = recorder.charge(2).refund(3).charge(1).after(SECOND_US).charge(3);
    vectors.push(recorder.at_retry(0).charge(3).charge(2).finish());
    let recorder = Recorder::new("a forced charge pushes out the oldest", &minute, START).charge(3);
    let recorder = recorder.after(SECOND_US).charge(2).after(SECOND_US).take(2).charge(1);
    vectors.push(recorder.at_retry(0).charge(1).charge(2).at_retry(0).charge(2).finish());
    let million = limit(algorithm, 1_000_000, YEAR_US);
    let recorder = Recorder::new("a million a year", &million, START).charge(999_999).after(YEAR_US / 2);
    let recorder = recorder.charge(1).charge(1).at_retry(1).charge(1).at_retry(0).charge(999_999);
    vectors.push(recorder.charge(1).at_retry(0).charge(1).finish());
    vectors.extend([zero(algorithm), one_microsecond(algorithm)]);
    let many = (1_000_000, YEAR_US);
    vectors.extend(walks(5, algorithm, &[WALKED[0], WALKED[1], many, WALKED[3], (1, 10), (2, 3), WALKED[5]]));
    vectors
}
