//! A value of a rule file, read as the type of its field.
//!
//! Every function here reports its own mistake and then returns `None`. So reading continues, and one pass
//! finds all mistakes.

use std::ops::RangeInclusive;

use super::fields::Fields;
use super::report::{Firsts, Path, Report};
use super::words::{did_you_mean, list, quoted};
use crate::rules::problem::Place;
use crate::rules::yaml::{Content, Entry, Node};

/// The longest key, value or name. Far longer than any real header or path.
pub(super) const MAX_TEXT_BYTES: usize = 4_096;

/// A value and the path of its field.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) node: &'a Node<'a>,
    pub(super) path: Path<'a>,
}

impl<'a> Value<'a> {
    pub(super) fn place(&self) -> Place {
        self.node.place
    }

    /// Reports a mistake about this value.
    pub(super) fn fault(&self, report: &mut Report, message: impl Into<String>) {
        report.add(self.place(), &self.path, || message.into());
    }

    /// Reads a text: any scalar as it is written, as the YAML library of Go reads text fields.
    pub(super) fn text(&self, report: &mut Report) -> Option<&'a str> {
        let message = match &self.node.content {
            Content::Scalar { text, .. } if text.len() > MAX_TEXT_BYTES => too_long(text),
            Content::Scalar { text, .. } if !self.node.is_null() => return Some(text),
            _ => format!("must be text, got {}", self.found()),
        };
        self.fault(report, message);
        None
    }

    /// Reads a whole number within a range. `1_000` is 1000; `010` is rejected, because some readers take it
    /// for 8.
    pub(super) fn whole(&self, range: RangeInclusive<u64>, report: &mut Report) -> Option<u64> {
        let number = self.plain().and_then(whole).filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = range.into_inner();
            let zeros = |text: &str| text.starts_with('0') && whole(text.trim_start_matches('0')).is_some();
            let remedy = match self.plain() {
                Some(text) if zeros(text) => "; write it without leading zeros",
                _ => self.quotes(|text| whole(text).is_some()),
            };
            let found = self.found();
            self.fault(report, format!("must be a whole number from {least} to {most}, got {found}{remedy}"));
        }
        number
    }

    /// Reads `true` or `false`, in the spellings of the YAML library of Go.
    pub(super) fn flag(&self, report: &mut Report) -> Option<bool> {
        let flag = self.plain().and_then(flag);
        if flag.is_none() {
            let remedy = self.quotes(|text| self::flag(text).is_some());
            self.fault(report, format!("must be true or false, got {}{remedy}", self.found()));
        }
        flag
    }

    /// Reads one of a few words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&'static str, T)], report: &mut Report) -> Option<T> {
        let names = || words.iter().map(|(name, _)| *name);
        if let Content::Scalar { text, .. } = &self.node.content {
            if let Some((_, choice)) = words.iter().find(|(name, _)| name == text) {
                return Some(*choice);
            }
            report.add(self.place(), &self.path, || {
                let meant = did_you_mean(text, names());
                format!("must be one of {}, got {}{meant}", list(names()), quoted(text))
            });
        } else {
            self.fault(report, format!("must be one of {}, got {}", list(names()), self.found()));
        }
        None
    }

    /// Returns the items of a list.
    pub(super) fn items<'b>(&'b self, report: &mut Report) -> impl Iterator<Item = Value<'b>> + use<'a, 'b> {
        let items = if let Content::List(items) = &self.node.content {
            items.as_ref()
        } else {
            self.fault(report, format!("must be a list, got {}", self.found()));
            &[]
        };
        items.iter().enumerate().map(|(index, node)| Value { node, path: self.path.index(index) })
    }

    /// Returns the entries of a mapping whose keys the user chooses. Keys that occur twice are reported.
    pub(super) fn entries<'b>(
        &'b self,
        report: &mut Report,
    ) -> impl Iterator<Item = (&'b Entry<'b>, Value<'b>)> + use<'a, 'b> {
        let entries = if let Content::Mapping(entries) = &self.node.content {
            entries.as_ref()
        } else {
            self.fault(report, format!("must be a mapping, got {}", self.found()));
            &[]
        };
        let mut seen = Firsts::default();
        for entry in entries {
            if entry.key.len() > MAX_TEXT_BYTES {
                report.add(entry.place, &self.path.field(&entry.key), || too_long(&entry.key));
            }
            if let Some(first) = seen.earlier(entry.key.as_ref(), entry.place) {
                report.add(entry.place, &self.path.field(&entry.key), || second_key(first));
            }
        }
        entries.iter().map(|entry| (entry, Value { node: &entry.value, path: self.path.field(&entry.key) }))
    }

    /// Returns the fields of a mapping with fixed fields.
    pub(super) fn fields(self, allowed: &'static [&'static str], report: &mut Report) -> Option<Fields<'a>> {
        Fields::read(self, allowed, report)
    }

    /// Describes the value for a message.
    pub(super) fn found(&self) -> String {
        match &self.node.content {
            Content::List(_) => "a list".to_owned(),
            Content::Mapping(_) => "a mapping".to_owned(),
            Content::Scalar { .. } if self.node.is_null() => "nothing".to_owned(),
            Content::Scalar { text, plain: true } if text.len() < 40 && text.parse::<f64>().is_ok() => {
                text.as_ref().to_owned()
            }
            Content::Scalar { text, .. } => quoted(text),
        }
    }

    fn plain(&self) -> Option<&'a str> {
        match &self.node.content {
            Content::Scalar { text, plain: true } => Some(text),
            _ => None,
        }
    }

    /// Returns the remedy for a number or a flag in quotes.
    fn quotes(&self, meant: impl Fn(&str) -> bool) -> &'static str {
        match &self.node.content {
            Content::Scalar { text, plain: false } if meant(text) => "; remove the quotes",
            _ => "",
        }
    }
}

fn too_long(text: &str) -> String {
    format!("must be at most {MAX_TEXT_BYTES} bytes long, got {}", text.len())
}

/// Returns the message for a key that occurs again.
pub(super) fn second_key(first: Place) -> String {
    format!("the same key is on line {} already; keep one of them", first.line)
}

fn whole(text: &str) -> Option<u64> {
    let digits = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if leading_zero || text.starts_with('_') || text.ends_with('_') || !text.bytes().all(digits) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Parses a flag in the spellings of YAML 1.1, which files for envoyproxy/ratelimit may use.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "y" | "Y" | "on" | "On" | "ON" => Some(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "n" | "N" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}
