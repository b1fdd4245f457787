//! Lists in pages.

use super::ApiResult;
use crate::problem::Problem;
use tidegate_catalog::MAX_PAGE;

/// The default number of items on a page.
const DEFAULT_LIMIT: usize = 100;

/// Which page to return, and its maximum length.
pub(crate) struct PageQuery {
    pub(crate) cursor: Option<String>,
    pub(crate) limit: usize,
}

impl PageQuery {
    pub(super) fn new(cursor: Option<String>, limit: Option<usize>) -> ApiResult<Self> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(Problem::field("limit", format!("must be from 1 to {MAX_PAGE}, got {limit}")));
        }
        Ok(Self { cursor: cursor.filter(|cursor| !cursor.is_empty()), limit })
    }
}
