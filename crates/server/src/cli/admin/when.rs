//! Times: as people say them, and as they read them.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Which way a length of time alone points.
#[derive(Clone, Copy, Debug)]
pub(super) enum Toward {
    Future,
    Past,
}

/// A time as flags give it: `2026-12-31T12:00:00Z`, `2026-12-31` (midnight UTC), or `90s`, `15m`, `12h`,
/// `30d`, `2w` from now.
pub(super) fn parse(text: &str, toward: Toward, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    if let Ok(date) = text.parse::<Date>() {
        return date.to_zoned(TimeZone::UTC).map(|day| day.timestamp()).map_err(|error| error.to_string());
    }
    let wrong = || format!("must be a time such as 2026-12-31T12:00:00Z, 2026-12-31 or 30d, got {text:?}");
    let length = length(text).ok_or_else(wrong)?;
    let time = match toward {
        Toward::Future => now.checked_add(length),
        Toward::Past => now.checked_sub(length),
    };
    time.map_err(|_| wrong())
}

/// For flags that name a time to come.
pub(super) fn future(text: &str) -> Result<Timestamp, String> {
    parse(text, Toward::Future, Timestamp::now())
}

/// For flags that name a time gone by.
pub(super) fn past(text: &str) -> Result<Timestamp, String> {
    parse(text, Toward::Past, Timestamp::now())
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

/// `2026-11-13 06:35:57Z (3d ago)`. What is no time is shown as it is; nothing as nothing.
pub(super) fn shown(time: Option<&str>, now: Timestamp) -> String {
    let Some(text) = time else { return String::new() };
    let Ok(time) = text.parse::<Timestamp>() else { return text.to_owned() };
    format!("{} ({})", time.strftime("%Y-%m-%d %H:%M:%SZ"), relative(time, now))
}

/// `in 5m`, `3d ago`, `now`.
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
    fn times_are_said_and_shown_as_people_do() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().expect("a time");
        let said = |text, toward| parse(text, toward, now).map(|time| time.to_string());
        assert_eq!(said("30d", Toward::Future).as_deref(), Ok("2026-12-16T12:00:00Z"));
        assert_eq!(said("90s", Toward::Past).as_deref(), Ok("2026-11-16T11:58:30Z"));
        assert_eq!(said("2026-12-31", Toward::Future).as_deref(), Ok("2026-12-31T00:00:00Z"));
        assert_eq!(said("2026-12-31T01:00:00+01:00", Toward::Past).as_deref(), Ok("2026-12-31T00:00:00Z"));
        for wrong in ["", "d", "-1d", "5", "soon", "1.5h", "\u{fc}", "99999999w9"] {
            assert!(said(wrong, Toward::Future).is_err(), "{wrong}");
        }
        let shown = |text| shown(Some(text), now);
        assert_eq!(shown("2026-11-13T12:00:00.5Z"), "2026-11-13 12:00:00Z (2d ago)");
        assert_eq!(shown("2026-11-16T12:05:00Z"), "2026-11-16 12:05:00Z (in 5m)");
        assert_eq!(shown("2026-11-16T12:00:00Z"), "2026-11-16 12:00:00Z (now)");
        assert_eq!(shown("soon"), "soon");
    }
}
