//! Long lists, a page at a time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{Error, Result};

/// The most that one page holds, whatever is asked for.
pub const MAX_PAGE: usize = 1_000;

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins, if there is one: give it as the cursor. It means nothing else.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Of one row more than the page holds, if there are so many; the key says where an item stands.
    pub(crate) fn of(mut rows: Vec<T>, size: usize, key: impl Fn(&T) -> String) -> Self {
        let more = rows.len() > size;
        rows.truncate(size);
        let last = rows.last().filter(|_| more);
        let next = last.map(|item| URL_SAFE_NO_PAD.encode(key(item)));
        Self { items: rows, next }
    }
}

/// How many a page shall hold.
pub(crate) fn size(limit: usize) -> usize {
    limit.clamp(1, MAX_PAGE)
}

/// How many to ask for, to see whether there are more.
pub(crate) fn asked(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX).saturating_add(1)
}

/// The key behind a cursor.
pub(crate) fn key(cursor: Option<&str>) -> Result<Option<String>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|key| !key.contains('\0'));
    key.map(Some).ok_or_else(bad)
}

/// What a cursor that was not handed out answers.
pub(crate) fn bad() -> Error {
    Error::invalid("cursor", "is not one that a page has given: begin again without it")
}
