//! Times in flags and in output.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Whether a plain duration is in the future or in the past.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    Future,
    Past,
}

/// Parses a time: `2026-12-31T12:00:00Z`, `2026-12-31` (midnight UTC), or `90s`, `15m`, `12h`, `30d`, `2w` from now.
pub(super) fn parse(text: &str, toward: Direction, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    if let Ok(date) = text.parse::<Date>() {
        return date.to_zoned(TimeZone::UTC).map(|day| day.timestamp()).map_err(|error| error.to_string());
    }
    let wrong = || format!("must be a time such as 2026-12-31T12:00:00Z, 2026-12-31 or 30d, got {text:?}");
    let length = length(text).ok_or_else(wrong)?;
    let time = match toward {
        Direction::Future => now.checked_add(length),
        Direction::Past => now.checked_sub(length),
    };
    time.map_err(|_| wrong())
}

/// The time by this machine's clock, which people who type and read times go by.
#[expect(clippy::disallowed_methods, reason = "a command for people; nothing is decided by it")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// Parses a time for flags whose plain durations are in the future.
pub(super) fn future(text: &str) -> Result<Timestamp, String> {
    parse(text, Direction::Future, now())
}

/// Parses a time for flags whose plain durations are in the past.
pub(super) fn past(text: &str) -> Result<Timestamp, String> {
    parse(text, Direction::Past, now())
}

fn length(text: &str) -> Option<SignedDuration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    let number: u32 = number.parse().ok()?;
    Some(SignedDuration::from_secs(i64::from(number) * seconds))
}

/// Prints `2026-11-13 06:35:57Z (3d ago)`. A text that is not a time is returned unchanged; `None` is empty.
pub(super) fn shown(time: Option<&str>, now: Timestamp) -> String {
    let Some(text) = time else { return String::new() };
    let Ok(time) = text.parse::<Timestamp>() else { return text.to_owned() };
    format!("{} ({})", time.strftime("%Y-%m-%d %H:%M:%SZ"), relative(time, now))
}

/// Prints `in 5m`, `3d ago` or `now`.
fn relative(time: Timestamp, now: Timestamp) -> String {
    let seconds = time.duration_since(now).as_secs();
    let length = seconds.unsigned_abs();
    let rough = match length {
        0..60 => format!("{length}s"),
        60..3600 => format!("{}m", length / 60),
        3600..86_400 => format!("{}h", length / 3600),
        _ => format!("{}d", length / 86_400),
    };
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {rough}"),
        _ => format!("{rough} ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_and_printed() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().expect("a time");
        let parsed = |text, toward| parse(text, toward, now).map(|time| time.to_string());
        assert_eq!(parsed("30d", Direction::Future).as_deref(), Ok("2026-12-16T12:00:00Z"));
        assert_eq!(parsed("90s", Direction::Past).as_deref(), Ok("2026-11-16T11:58:30Z"));
        assert_eq!(parsed("2026-12-31", Direction::Future).as_deref(), Ok("2026-12-31T00:00:00Z"));
        assert_eq!(
            parsed("2026-12-31T01:00:00+01:00", Direction::Past).as_deref(),
            Ok("2026-12-31T00:00:00Z")
        );
        for wrong in ["", "d", "-1d", "5", "soon", "1.5h", "\u{fc}", "99999999w9"] {
            assert!(parsed(wrong, Direction::Future).is_err(), "{wrong}");
        }
        let shown = |text| shown(Some(text), now);
        assert_eq!(shown("2026-11-13T12:00:00.5Z"), "2026-11-13 12:00:00Z (2d ago)");
        assert_eq!(shown("2026-11-16T12:05:00Z"), "2026-11-16 12:05:00Z (in 5m)");
        assert_eq!(shown("2026-11-16T12:00:00Z"), "2026-11-16 12:00:00Z (now)");
        assert_eq!(shown("soon"), "soon");
    }
}
