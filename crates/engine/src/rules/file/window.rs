//! Windows and durations in a rule file.

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use jiff::tz::TimeZone;
use tidegate_core::{Calendar, CalendarUnit, Window};

use super::fields::Fields;
use super::report::Report;
use super::value::Value;
use super::words::{did_you_mean, list, quoted};
use crate::rules::yaml::Content;

const NAMES: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

const CALENDAR_UNITS: [(&str, CalendarUnit); 4] = [
    ("day", CalendarUnit::Day),
    ("week", CalendarUnit::Week),
    ("month", CalendarUnit::Month),
    ("year", CalendarUnit::Year),
];

/// The values that a field for a window accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    /// Only the names of units, as `unit` of envoyproxy/ratelimit.
    Names,
    /// The names of units, and durations.
    Durations,
}

/// Reads the window of a limit from the field `name`, and from `calendar` if that is set.
pub(super) fn window(
    fields: &Fields<'_>,
    name: &'static str,
    accepts: Accepts,
    report: &mut Report,
) -> Option<Window> {
    let length = fields.get(name);
    if length.is_none() {
        fields.missing(name, report, || format!("give {}", allowed(accepts)));
    }
    match fields.get("calendar") {
        None => period(&length?, accepts, report),
        Some(zone) => {
            let unit = length.and_then(|length| calendar_unit(&length, report));
            let zone_name = zone_name(&zone, report);
            Calendar::new(unit?, &zone_name?).map(Window::Calendar)
        }
    }
}

/// Reads the window of a tier's `per`. If the window that it replaces is a calendar window, so is this one.
pub(super) fn changed(per: &Value<'_>, now: Option<&Window>, report: &mut Report) -> Option<Window> {
    match now {
        Some(Window::Calendar(now)) => {
            Calendar::new(calendar_unit(per, report)?, now.zone_name()).map(Window::Calendar)
        }
        _ => period(per, Accepts::Durations, report),
    }
}

/// Reads a duration such as `90s`. Returns it in microseconds, at least 1.
pub(super) fn duration_us(value: &Value<'_>, report: &mut Report) -> Option<u64> {
    let text = value.text(report)?;
    let result = micros(text);
    if let Err(remedy) = result {
        value.fault(
            report,
            format!("must be a duration such as 250ms, 90s or 1h30m, got {}{remedy}", quoted(text)),
        );
    }
    result.ok()
}

fn allowed(accepts: Accepts) -> String {
    let durations = match accepts {
        Accepts::Names => "",
        Accepts::Durations => ", or a duration such as 250ms, 90s or 1h30m",
    };
    format!("one of {}{durations}", list(NAMES))
}

fn period(length: &Value<'_>, accepts: Accepts, report: &mut Report) -> Option<Window> {
    let Content::Scalar { text, .. } = &length.node.content else {
        length.fault(report, format!("must be {}, got {}", allowed(accepts), length.found()));
        return None;
    };
    let window = read(text, accepts);
    if let Err(message) = &window {
        length.fault(report, message.clone());
    }
    window.ok()
}

/// Parses a window: the name of a unit such as `minute`, or a duration such as `90s`.
///
/// # Errors
/// Returns a message that says what is allowed, and a remedy.
pub fn window_of(text: &str) -> Result<Window, String> {
    read(text, Accepts::Durations)
}

fn read(text: &str, accepts: Accepts) -> Result<Window, String> {
    if let Some(window) = Window::named(text) {
        return Ok(window);
    }
    let remedy = match (accepts, micros(text)) {
        (Accepts::Durations, Ok(us)) => return Ok(Window::Period { us }),
        (Accepts::Durations, Err(remedy)) if !remedy.is_empty() => remedy.to_owned(),
        (Accepts::Names, Ok(_)) => "; for a duration use limits with per".to_owned(),
        _ => did_you_mean(text, NAMES),
    };
    Err(format!("must be {}, got {}{remedy}", allowed(accepts), quoted(text)))
}

fn calendar_unit(length: &Value<'_>, report: &mut Report) -> Option<CalendarUnit> {
    let text = length.text(report)?;
    let unit = CALENDAR_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    if unit.is_none() {
        let units = list(CALENDAR_UNITS.map(|(name, _)| name));
        length.fault(report, format!("must be one of {units} where calendar is set, got {}", quoted(text)));
    }
    unit.map(|(_, unit)| *unit)
}

/// Reads a time zone. Returns its name in the canonical spelling, so that `europe/berlin` is the same window
/// as `Europe/Berlin`.
fn zone_name(value: &Value<'_>, report: &mut Report) -> Option<String> {
    let text = value.text(report)?;
    let zone = TimeZone::get(text).ok();
    let name = zone.as_ref().and_then(TimeZone::iana_name).map(str::to_owned);
    if name.is_none() {
        report.add(value.place(), &value.path, || {
            let known: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
            let meant = did_you_mean(text, known.iter().map(String::as_str));
            let allowed = "an IANA time zone such as UTC or Europe/Berlin";
            format!("must be {allowed}, got {}{meant}", quoted(text))
        });
    }
    name
}

/// Parses a duration such as `1h30m`. Returns it in microseconds. Days are 24 hours, weeks 7 days.
///
/// # Errors
/// Returns a remedy to append to the message; empty if the text is not a duration at all.
pub fn micros(text: &str) -> Result<u64, &'static str> {
    let span = SpanParser::new().parse_span(text).map_err(|_| match text.parse::<f64>() {
        Ok(_) => "; add a unit, as in 90s",
        Err(_) => "",
    })?;
    let duration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| "; months and years differ in length, write days as in 30d")?;
    let nanos = duration.as_nanos();
    if nanos <= 0 {
        return Err("; it must be longer than 0");
    }
    if nanos % 1_000 != 0 {
        return Err("; nothing is shorter than a microsecond");
    }
    u64::try_from(nanos / 1_000).map_err(|_| "; it is too long")
}
