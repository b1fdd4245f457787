//! Recent events that the charts show as marks.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tidegate::Micros;
use utoipa::ToSchema;

/// Marks that are kept.
const MAX: usize = 200;
/// Bytes of a mark's text.
const TEXT_BYTES: usize = 200;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Mark {
    /// When, in seconds since 1970.
    pub(crate) at_s: u64,
    /// `rules`, `switch`, `quota`, `restart` or `degraded`.
    pub(crate) kind: String,
    /// What happened.
    pub(crate) text: String,
}

/// What happened lately, oldest first.
#[derive(Default)]
pub(super) struct Marks(VecDeque<Mark>);

impl Marks {
    pub(super) fn restored(marks: Vec<Mark>) -> Self {
        let skipped = marks.len().saturating_sub(MAX);
        Self(marks.into_iter().skip(skipped).collect())
    }

    pub(super) fn add(&mut self, at: Micros, kind: &str, mut text: String) -> Mark {
        text.truncate(text.floor_char_boundary(TEXT_BYTES));
        let mark = Mark { at_s: at.0 / 1_000_000, kind: kind.to_owned(), text };
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(mark.clone());
        mark
    }

    pub(super) fn all(&self) -> &VecDeque<Mark> {
        &self.0
    }

    pub(super) fn since(&self, from_s: u64) -> Vec<Mark> {
        self.0.iter().filter(|mark| mark.at_s >= from_s).cloned().collect()
    }
}
