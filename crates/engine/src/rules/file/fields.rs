//! A mapping with fixed fields.

use std::ops::RangeInclusive;

use super::report::Report;
use super::value::{Value, second_key};
use super::words::{did_you_mean, list};
use crate::rules::problem::Place;
use crate::rules::yaml::{Content, Entry};

/// A mapping in which every field is known and occurs once. Unknown and repeated fields are reported and
/// dropped.
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

    /// Returns the value of a field, or `None` if it is absent or null.
    pub(super) fn get<'b>(&'b self, name: &'b str) -> Option<Value<'b>> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        let value = Value { node: &entry.value, path: self.value.path.field(name) };
        (!value.node.is_null()).then_some(value)
    }

    /// Returns the position of a field's name; for an absent field, the position of the mapping.
    pub(super) fn place_of(&self, name: &str) -> Place {
        let entry = self.entries.iter().find(|entry| entry.key == name);
        entry.map_or(self.value.place(), |entry| entry.place)
    }

    /// Returns the value of a required field, and reports if it is missing. `remedy` says what to write.
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

    /// Reports that a field is missing.
    pub(super) fn missing(&self, name: &str, report: &mut Report, remedy: impl FnOnce() -> String) {
        report.add(self.place_of(name), &self.value.path.field(name), || format!("missing; {}", remedy()));
    }

    /// Returns the text of a field, or `None` if it is absent or empty.
    pub(super) fn text(&self, name: &str, report: &mut Report) -> Option<String> {
        let text = self.get(name)?.text(report)?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns the text of a required field, which must not be empty.
    pub(super) fn required_text(&self, name: &str, remedy: &str, report: &mut Report) -> Option<String> {
        let value = self.required(name, remedy, report)?;
        let text = value.text(report)?;
        if text.is_empty() {
            value.fault(report, format!("must not be empty; {remedy}"));
            return None;
        }
        Some(text.to_owned())
    }

    /// Returns the whole number of a field.
    pub(super) fn whole(&self, name: &str, range: RangeInclusive<u64>, report: &mut Report) -> Option<u64> {
        self.get(name)?.whole(range, report)
    }

    /// Returns the flag of a field; false if it is absent.
    pub(super) fn flag(&self, name: &str, report: &mut Report) -> bool {
        self.get(name).and_then(|value| value.flag(report)).unwrap_or(false)
    }
}
