//! Parses durations and points in time as servers write them. Texts that cannot be parsed give `None`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A reset of this or more is a time in seconds since the Unix epoch; a smaller one is a number of seconds from now.
const EPOCH_S_FROM: u64 = 1_000_000_000;

/// A reset of this or more is a time in milliseconds since the Unix epoch.
const EPOCH_MS_FROM: u64 = 1_000_000_000_000;

/// The most digits before and after the point of a number.
const WHOLE_DIGITS: usize = 15;
const FRACTION_DIGITS: usize = 9;

const SECOND_NS: u128 = 1_000_000_000;

/// Units of a duration, in nanoseconds. `ms` is before `m`.
const UNITS: [(&str, u128); 5] = [
    ("ms", 1_000_000),
    ("s", SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("h", 3_600 * SECOND_NS),
    ("d", 86_400 * SECOND_NS),
];

/// Parses the time until a reset, which may be a number, a duration, or a point in time.
pub(super) fn reset_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Some((nanos, "")) = decimal(text) {
        let since_epoch = match nanos / SECOND_NS {
            seconds if seconds >= u128::from(EPOCH_MS_FROM) => nanos / 1_000,
            seconds if seconds >= u128::from(EPOCH_S_FROM) => nanos,
            _ => return Some(duration(nanos)),
        };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        return Some(duration(since_epoch).saturating_sub(now));
    }
    duration_of(text).or_else(|| until(text, now))
}

/// Parses `retry-after-ms`, which is more precise, or else `Retry-After`.
pub(super) fn retry_after(seconds: Option<&str>, millis: Option<&str>, now: SystemTime) -> Option<Duration> {
    if let Some((nanos, "")) = millis.and_then(|text| decimal(text.trim())) {
        return Some(duration(nanos / 1_000));
    }
    let text = seconds?.trim();
    match decimal(text) {
        Some((nanos, "")) => Some(duration(nanos)),
        _ => until(text, now),
    }
}

/// Parses a whole number that consists of decimal digits only.
pub(super) fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = (1..=WHOLE_DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Parses a decimal number at the beginning of a text. Returns it in billionths, with the rest of the text.
fn decimal(text: &str) -> Option<(u128, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let end = digits(text);
    if !(1..=WHOLE_DIGITS).contains(&end) {
        return None;
    }
    let (whole, mut rest) = text.split_at(end);
    let mut nanos = whole.parse::<u128>().ok()? * SECOND_NS;
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = digits(fraction);
        if !(1..=FRACTION_DIGITS).contains(&end) {
            return None;
        }
        let scale = 10_u128.pow((FRACTION_DIGITS - end) as u32);
        nanos += fraction[..end].parse::<u128>().ok()? * scale;
        rest = &fraction[end..];
    }
    Some((nanos, rest))
}

/// Parses durations such as `1s`, `6m0s` or `120ms`.
fn duration_of(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (0_u128, text);
    while !rest.is_empty() {
        let (billionths, after) = decimal(rest)?;
        let (unit, nanos) = UNITS.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        total = total.checked_add(billionths * nanos / SECOND_NS)?;
        rest = &after[unit.len()..];
    }
    (!text.is_empty()).then(|| duration(total))
}

/// Returns the time until an HTTP date or an RFC 3339 time: zero if it has passed, `None` if it is neither.
fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let at = match httpdate::parse_http_date(text) {
        Ok(at) => at,
        Err(_) => SystemTime::from(text.parse::<jiff::Timestamp>().ok()?),
    };
    Some(at.duration_since(now).unwrap_or_default())
}

fn duration(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
