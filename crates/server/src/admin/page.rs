//! Long lists, a page at a time.

use tidegate_catalog::MAX_PAGE;

use super::problem::{Answer, Problem};

/// What a page holds where nobody says.
const USUAL: usize = 100;

/// Which page, and how long.
pub(crate) struct PageQuery {
    pub(crate) cursor: Option<String>,
    pub(crate) limit: usize,
}

impl PageQuery {
    pub(super) fn new(cursor: Option<String>, limit: Option<usize>) -> Answer<Self> {
        let limit = limit.unwrap_or(USUAL);
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(Problem::field("limit", format!("must be from 1 to {MAX_PAGE}, got {limit}")));
        }
        Ok(Self { cursor: cursor.filter(|cursor| !cursor.is_empty()), limit })
    }
}
