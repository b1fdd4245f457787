//! The fields of a mapping whose fields are fixed.

use std::ops::RangeInclusive;

use super::report::Report;
use super::value::{Value, second_key};
use super::words::{did_you_mean, list};
use crate::rules::problem::Place;
use crate::rules::yaml::{Content, Entry};

/// A mapping in which every field is known and occurs once; what else was in it is reported.
pub(super) struct Fields<'a> {
    pub(super) value: Value<'a>,
    entries: Vec<&'a Entry<'a>>,
}

impl<'a> Fields<'a> {
    pub(super) fn read(
        value: Value<'a>,
        allowed: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let Content::Mapping(all) = &value.node.content else {
            let allowed = list(allowed.iter().copied());
            value.fault(report, format!("must be a mapping, got {}; its fields: {allowed}", value.found()));
            return None;
        };
        let mut entries: Vec<&Entry<'_>> = Vec::with_capacity(all.len().min(allowed.len()));
        for entry in all.iter() {
            let path = value.path.field(&entry.key);
            if !allowed.contains(&entry.key.as_ref()) {
                report.add(entry.place, &path, || {
                    let meant = did_you_mean(&entry.key, allowed.iter().copied());
                    format!("unknown field; allowed: {}{meant}", list(allowed.iter().copied()))
                });
            } else if let Some(first) = entries.iter().find(|known| known.key == entry.key) {
                report.add(entry.place, &path, || second_key(first.place));
            } else {
                entries.push(entry);
            }
        }
        Some(Self { value, entries })
    }

    /// The value of a field; `None` where it is absent or null, which YAML readers treat alike.
    pub(super) fn get<'b>(&'b self, name: &'b str) -> Option<Value<'b>> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        let value = Value { node: &entry.value, path: self.value.path.field(name) };
        (!value.node.is_null()).then_some(value)
    }

    /// Where a field's name is; for a field that is absent, where the mapping begins.
    pub(super) fn place_of(&self, name: &str) -> Place {
        let entry = self.entries.iter().find(|entry| entry.key == name);
        entry.map_or(self.value.place(), |entry| entry.place)
    }

    /// The value of a field that must be there; `remedy` says what to write.
    pub(super) fn required<'b>(
        &'b self,
        name: &'b str,
        remedy: &str,
        report: &mut Report,
    ) -> Option<Value<'b>> {
        let value = self.get(name);
        if value.is_none() {
            self.missing(name, report, || remedy.to_owned());
        }
        value
    }

    /// Reports that a field is not there.
    pub(super) fn missing(&self, name: &str, report: &mut Report, remedy: impl FnOnce() -> String) {
        report.add(self.place_of(name), &self.value.path.field(name), || format!("missing; {}", remedy()));
    }

    /// A text; `None` where it is empty too.
    pub(super) fn text(&self, name: &str, report: &mut Report) -> Option<String> {
        let text = self.get(name)?.text(report)?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A text that must be there and not be empty.
    pub(super) fn required_text(&self, name: &str, remedy: &str, report: &mut Report) -> Option<String> {
        let value = self.required(name, remedy, report)?;
        let text = value.text(report)?;
        if text.is_empty() {
            value.fault(report, format!("must not be empty; {remedy}"));
            return None;
        }
        Some(text.to_owned())
    }

    /// A whole number.
    pub(super) fn whole(&self, name: &str, range: RangeInclusive<u64>, report: &mut Report) -> Option<u64> {
        self.get(name)?.whole(range, report)
    }

    /// A flag, off where absent.
    pub(super) fn flag(&self, name: &str, report: &mut Report) -> bool {
        self.get(name).and_then(|value| value.flag(report)).unwrap_or(false)
    }
}
