//! A limit in a rule file: `rate_limit` as in envoyproxy/ratelimit, or an item of `limits`.

use tidegate_core::{Calendar, CalendarUnit, LeakyMode, LimitField, MAX_COUNT, Window};

use super::fields::Fields;
use super::report::{Firsts, Report};
use super::value::Value;
use super::window::{self, Accepts};
use super::words::quoted;
use crate::rules::limit_spec::{AlgorithmName, Defaults, LimitSpec, SpecError};
use crate::rules::yaml::Content;

const FIELDS: [&str; 9] =
    ["name", "algorithm", "requests", "per", "burst", "buckets", "mode", "calendar", "replaces"];

const RATE_LIMIT_FIELDS: [&str; 10] = [
    "unit",
    "requests_per_unit",
    "unlimited",
    "name",
    "replaces",
    "algorithm",
    "burst",
    "buckets",
    "mode",
    "calendar",
];

const MODES: [(&str, LeakyMode); 2] = [("meter", LeakyMode::Meter), ("queue", LeakyMode::Queue)];

/// The value used for `requests` if it is invalid, so that the rest of the limit can still be checked.
/// Together with [`stand_in_window`], it allows any plausible burst.
const STAND_IN_REQUESTS: u64 = 1_000;

/// Returns the window used if it is invalid, so that the rest of the limit can still be checked.
fn stand_in_window(fields: &Fields<'_>) -> Window {
    let calendar = fields.get("calendar").and_then(|_| Calendar::new(CalendarUnit::Day, "UTC"));
    calendar.map_or(Window::seconds(1), Window::Calendar)
}

/// A limit that was read, possibly with mistakes.
pub(super) struct ReadLimit {
    pub(super) spec: LimitSpec,
    /// The name of the limit in decisions; `None` if it is named after its window and that is invalid.
    pub(super) name: Option<String>,
    /// Whether the limit has no mistakes.
    pub(super) sound: bool,
}

/// The limits of one rule.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) all: Vec<ReadLimit>,
    /// Whether the name of some limit is unknown.
    pub(super) unknown_names: bool,
    names: Firsts<String>,
}

impl Limits {
    /// Adds a limit. Names must be unique, because decisions, tiers and counters refer to limits by name.
    pub(super) fn add(&mut self, value: &Value<'_>, limit: Option<ReadLimit>, report: &mut Report) {
        match limit.as_ref().and_then(|limit| limit.name.clone()) {
            None => self.unknown_names = true,
            Some(name) => {
                if let Some(first) = self.names.earlier(name.clone(), value.place()) {
                    let message = format!("the limit on line {} is called {} too", first.line, quoted(&name));
                    value.fault(report, format!("{message}; give each its own name"));
                }
            }
        }
        self.all.extend(limit);
    }
}

/// The contents of `rate_limit`.
#[derive(Default)]
pub(super) struct RateLimit {
    pub(super) name: Option<String>,
    pub(super) unlimited: bool,
    /// The limits that it replaces if it is unlimited. Otherwise the list is in `limit`.
    pub(super) replaces: Vec<String>,
    pub(super) limit: Option<ReadLimit>,
}

/// Reads an item of `limits`.
pub(super) fn limit(value: Value<'_>, defaults: Defaults, report: &mut Report) -> Option<ReadLimit> {
    let mistakes = report.count();
    let fields = value.fields(&FIELDS, report)?;
    let requests = fields
        .required("requests", "say how many requests per window are allowed", report)
        .and_then(|value| value.whole(0..=MAX_COUNT, report));
    let window = window::window(&fields, "per", Accepts::Durations, report);
    let mut limit = rest(&fields, ["requests", "per"], requests, window, defaults, report);
    limit.sound = report.count() == mistakes;
    Some(limit)
}

/// Reads `rate_limit`.
pub(super) fn rate_limit(value: Value<'_>, defaults: Defaults, report: &mut Report) -> Option<RateLimit> {
    let mistakes = report.count();
    let fields = value.fields(&RATE_LIMIT_FIELDS, report)?;
    let name = fields.text("name", report);
    if fields.flag("unlimited", report) {
        bare_unlimited(&fields, report);
        let replaces = replaces(&fields, name.as_deref(), report);
        return Some(RateLimit { name, unlimited: true, replaces, limit: None });
    }
    let remedy = "say how many requests per unit are allowed (0 denies all), or set unlimited: true";
    let requests = fields
        .required("requests_per_unit", remedy, report)
        .and_then(|value| value.whole(0..=u64::from(u32::MAX), report));
    let window = window::window(&fields, "unit", Accepts::Names, report);
    let mut limit = rest(&fields, ["requests_per_unit", "unit"], requests, window, defaults, report);
    limit.sound = report.count() == mistakes;
    Some(RateLimit { name, limit: Some(limit), ..RateLimit::default() })
}

/// Checks the other fields of an unlimited `rate_limit`. A window contradicts `unlimited`. Requests alone are
/// accepted, and so is an empty or unknown unit, because envoyproxy/ratelimit accepts files that have them.
fn bare_unlimited(fields: &Fields<'_>, report: &mut Report) {
    if let Some(requests) = fields.get("requests_per_unit") {
        requests.whole(0..=u64::from(u32::MAX), report);
    }
    for name in ["unit", "algorithm", "burst", "buckets", "mode", "calendar"] {
        let Some(value) = fields.get(name) else { continue };
        let none = |text: &str| text.is_empty() || text.eq_ignore_ascii_case("unknown");
        let is_none = matches!(&value.node.content, Content::Scalar { text, .. } if none(text));
        if name != "unit" || !is_none {
            value.fault(report, format!("means nothing where unlimited is true; remove {name} or unlimited"));
        }
    }
}

/// Reads the fields that both kinds of limit have, and checks the numbers together.
fn rest(
    fields: &Fields<'_>,
    names: [&'static str; 2],
    requests: Option<u64>,
    window: Option<Window>,
    defaults: Defaults,
    report: &mut Report,
) -> ReadLimit {
    let has_window = window.is_some();
    let mut spec = LimitSpec::new(
        requests.unwrap_or(STAND_IN_REQUESTS),
        window.unwrap_or_else(|| stand_in_window(fields)),
    );
    spec.name = fields.text("name", report);
    spec.burst = fields.whole("burst", 0..=MAX_COUNT, report);
    spec.buckets = fields.whole("buckets", 0..=u64::from(u32::MAX), report).map(|buckets| buckets as u32);
    spec.mode = fields.get("mode").and_then(|value| value.choice(&MODES, report));
    let algorithm = fields.get("algorithm").map(|value| value.choice(&AlgorithmName::ALL, report));
    spec.algorithm = algorithm.flatten();
    if algorithm != Some(None) {
        check(spec.clone(), fields, names, defaults, report);
    }
    let name = (has_window || spec.name.is_some()).then(|| spec.effective_name());
    spec.replaces = replaces(fields, spec.name.as_deref(), report);
    ReadLimit { spec, name, sound: true }
}

/// Reports every mistake in the numbers: after each one, removes the field at fault and checks again.
fn check(
    mut spec: LimitSpec,
    fields: &Fields<'_>,
    [requests, per]: [&'static str; 2],
    defaults: Defaults,
    report: &mut Report,
) {
    while let Err(SpecError { field, reason }) = spec.build(&defaults) {
        let written = match field {
            LimitField::Requests => requests,
            LimitField::Window => per,
            other => other.name(),
        };
        let place = fields.get(written).map_or(fields.value.place(), |value| value.place());
        report.add(place, &fields.value.path.field(written), || reason);
        let taken = match field {
            LimitField::Burst => spec.burst.take().is_some(),
            LimitField::Buckets => spec.buckets.take().is_some(),
            LimitField::Mode => spec.mode.take().is_some(),
            LimitField::Requests | LimitField::Window | LimitField::Calendar => false,
        };
        if !taken {
            return;
        }
    }
}

/// Reads the names of limits that this one replaces in the same request.
fn replaces(fields: &Fields<'_>, own: Option<&str>, report: &mut Report) -> Vec<String> {
    let Some(value) = fields.get("replaces") else { return Vec::new() };
    value.items(report).filter_map(|item| replaced(item, own, report)).collect()
}

fn replaced(item: Value<'_>, own: Option<&str>, report: &mut Report) -> Option<String> {
    let fields = item.fields(&["name"], report)?;
    let name = fields.required_text("name", "name the limit to replace", report)?;
    if Some(name.as_str()) == own {
        item.fault(report, format!("a limit cannot replace itself; {} is its own name", quoted(&name)));
    }
    Some(name)
}
