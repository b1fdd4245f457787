//! The settings file: nested YAML, parsed as rule files are.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tidegate::rules::file::words;
use tidegate::rules::yaml::{self, Content, Entry, Node};
use tidegate::{Place, Problem};

use super::kind::shown;
use super::table::{SETTINGS, Setting};

/// The maximum size of a settings file.
const MAX_BYTES: u64 = 1 << 20;

/// The text of a setting in the file.
pub(super) struct GivenText {
    pub(super) row: &'static Setting,
    pub(super) place: Place,
    pub(super) text: String,
}

/// Returns the settings in the file, and adds a problem for every mistake.
pub(super) fn read(path: &Path, problems: &mut Vec<Problem>) -> Vec<GivenText> {
    let mut reader = Reader { file: path.display().to_string(), given: Vec::new(), problems };
    match bytes(path) {
        Err(error) => {
            let message = format!("cannot be read: {error}; check the path and its permissions");
            reader.fault(None, "", message);
        }
        Ok(bytes) if bytes.len() as u64 > MAX_BYTES => {
            reader.fault(None, "", format!("must be at most {MAX_BYTES} bytes long; is it a settings file?"));
        }
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => reader.document(text),
            Err(error) => {
                let valid = error.valid_up_to();
                let before = std::str::from_utf8(&bytes[..valid]).unwrap_or_default();
                let message = format!("byte 0x{:02x} is not UTF-8; save the file as UTF-8", bytes[valid]);
                reader.fault(Some(yaml::place_of(before, valid)), "", message);
            }
        },
    }
    reader.given
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

struct Reader<'p> {
    file: String,
    given: Vec<GivenText>,
    problems: &'p mut Vec<Problem>,
}

impl Reader<'_> {
    fn fault(&mut self, place: Option<Place>, field: &str, message: String) {
        self.problems.push(Problem { file: self.file.clone(), place, field: field.to_owned(), message });
    }

    fn document(&mut self, text: &str) {
        match yaml::parse(text) {
            Err(fault) => self.fault(Some(fault.place), "", fault.message),
            // A file of comments changes nothing.
            Ok(None) => {}
            Ok(Some(node)) if node.is_null() => {}
            Ok(Some(node)) => self.section("", &node),
        }
    }

    fn section(&mut self, prefix: &str, node: &Node<'_>) {
        let Content::Mapping(entries) = &node.content else {
            let names = words::list(fields(prefix).iter().copied());
            let message = format!("must be a mapping, got {}; its fields: {names}", found(node));
            return self.fault(Some(node.place), prefix, message);
        };
        for (index, entry) in entries.iter().enumerate() {
            let name =
                if prefix.is_empty() { entry.key.to_string() } else { format!("{prefix}.{}", entry.key) };
            if let Some(first) = entries[..index].iter().find(|first| first.key == entry.key) {
                let message =
                    format!("the same key is already on line {}; keep one of them", first.place.line);
                self.fault(Some(entry.place), &name, message);
            } else if entry.key.contains('.') {
                self.dotted(entry, &name);
            } else if let Some(row) = Setting::find(&name) {
                self.setting(row, &entry.value);
            } else if SETTINGS.iter().any(|row| is_within(row.name, &name)) {
                if !entry.value.is_null() {
                    self.section(&name, &entry.value);
                }
            } else {
                self.fault(Some(entry.place), &name, unknown(prefix, &entry.key));
            }
        }
    }

    fn setting(&mut self, row: &'static Setting, node: &Node<'_>) {
        match &node.content {
            // As in rule files, an empty value means the default.
            _ if node.is_null() => {}
            Content::Scalar { text, .. } => {
                self.given.push(GivenText { row, place: node.place, text: text.as_ref().to_owned() });
            }
            _ => {
                let message = format!("must be {}, got {}", row.kind.allowed(), found(node));
                self.fault(Some(node.place), row.name, message);
            }
        }
    }

    fn dotted(&mut self, entry: &Entry<'_>, name: &str) {
        let message = match Setting::find(name) {
            Some(_) => {
                let nested =
                    entry.key.split('.').rev().fold("...".to_owned(), |inner, part| match inner.as_str() {
                        "..." => format!("{part}: ..."),
                        _ => format!("{part}: {{ {inner} }}"),
                    });
                format!("sections are nested; write `{nested}`")
            }
            None => {
                format!("unknown setting{}", words::did_you_mean(name, SETTINGS.iter().map(|row| row.name)))
            }
        };
        self.fault(Some(entry.place), name, message);
    }
}

fn is_within(name: &str, section: &str) -> bool {
    name.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the names that are allowed in a section, each once.
fn fields(prefix: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for row in SETTINGS {
        let rest = match prefix {
            "" => row.name,
            _ if is_within(row.name, prefix) => &row.name[prefix.len() + 1..],
            _ => continue,
        };
        let name = rest.split('.').next().unwrap_or(rest);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the message for an unknown name. A similar name is suggested from the same section first, then the same name
/// from another section.
fn unknown(prefix: &str, key: &str) -> String {
    let here = fields(prefix);
    let mut meant = words::did_you_mean(key, here.iter().copied());
    if meant.is_empty() {
        let elsewhere = SETTINGS.iter().find(|row| row.name.rsplit('.').next() == Some(key));
        meant = elsewhere.map_or(String::new(), |row| format!("; did you mean {}?", row.name));
    }
    format!("unknown setting; allowed here: {}{meant}", words::list(here))
}

fn found(node: &Node<'_>) -> String {
    match &node.content {
        Content::List(_) => "a list".to_owned(),
        Content::Mapping(_) => "a mapping".to_owned(),
        Content::Scalar { text, .. } => words::quoted(&shown(text)),
    }
}
