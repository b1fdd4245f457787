//! Collects every mistake of a file, each with the path of its field.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;

use crate::rules::problem::{Place, Problem, Problems};

/// The most mistakes of one file that are reported. More would only fill the memory.
const MAX_PROBLEMS: usize = 1_000;

/// The mistakes of a file.
pub(super) struct Report {
    file: String,
    problems: Vec<Problem>,
    left_off: usize,
}

impl Report {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), problems: Vec::new(), left_off: 0 }
    }

    /// Adds a mistake. `message` is called only if the mistake is kept.
    pub(super) fn add(&mut self, place: Place, path: &Path<'_>, message: impl FnOnce() -> String) {
        if self.problems.len() == MAX_PROBLEMS {
            self.left_off += 1;
            return;
        }
        let (file, field, message) = (self.file.clone(), path.to_string(), message());
        self.problems.push(Problem { file, place: Some(place), field, message });
    }

    /// Returns the number of mistakes so far, including those that were not kept.
    pub(super) fn count(&self) -> usize {
        self.problems.len() + self.left_off
    }

    /// Returns `Ok` if there were no mistakes; else all of them, in the order of the file.
    pub(super) fn finish(mut self) -> Result<(), Problems> {
        if self.problems.is_empty() {
            return Ok(());
        }
        self.problems.sort_by_key(|problem| problem.place);
        if self.left_off > 0 {
            let message = format!("and {} more problems; fix these first", self.left_off);
            self.problems.push(Problem { file: self.file, place: None, field: String::new(), message });
        }
        Err(Problems(self.problems))
    }
}

/// The position of the first occurrence of each key.
pub(super) struct Firsts<K>(HashMap<K, Place>);

impl<K> Default for Firsts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Firsts<K> {
    /// Records an occurrence of `key`. Returns where it occurred first, or `None` if this is the first time.
    pub(super) fn earlier(&mut self, key: K, place: Place) -> Option<Place> {
        match self.0.entry(key) {
            Entry::Occupied(first) => Some(*first.get()),
            Entry::Vacant(vacant) => {
                vacant.insert(place);
                None
            }
        }
    }
}

/// The path from the top of the file to a field. It is a linked list on the stacks of the callers, and is
/// formatted only for a message.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Top,
    Field(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const TOP: Self = Self { parent: None, step: Step::Top };

    pub(super) fn field<'b>(&'b self, name: &'b str) -> Path<'b>
    where
        'a: 'b,
    {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    pub(super) fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }
}

/// Formats the path as in `descriptors[0].limits[1].burst`. Names with special characters are quoted.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Top => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Field(name) => {
                let dot = if self.parent.is_some_and(|parent| parent.parent.is_some()) { "." } else { "" };
                let simple = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
                if !name.is_empty() && name.len() <= 64 && name.chars().all(simple) {
                    write!(f, "{dot}{name}")
                } else {
                    write!(f, "{dot}{}", super::words::quoted(name))
                }
            }
        }
    }
}
