//! Pages of long lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{Error, Result};

/// The most items on one page, whatever size is requested.
pub const MAX_PAGE: usize = 1_000;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items on the page.
    pub items: Vec<T>,
    /// The cursor of the next page, or `None` if this is the last one. Its format is not specified.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Creates a page from up to `size + 1` rows: the extra row shows that there is a next page. `key`
    /// returns the position of an item in the list.
    pub(crate) fn of(mut rows: Vec<T>, size: usize, key: impl Fn(&T) -> String) -> Self {
        let more = rows.len() > size;
        rows.truncate(size);
        let last = rows.last().filter(|_| more);
        let next = last.map(|item| URL_SAFE_NO_PAD.encode(key(item)));
        Self { items: rows, next }
    }
}

/// Returns the page size for a requested limit.
pub(crate) fn size(limit: usize) -> usize {
    limit.clamp(1, MAX_PAGE)
}

/// Returns the number of rows to fetch: one more than the page size, to see whether there are more.
pub(crate) fn fetch_size(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX).saturating_add(1)
}

/// Decodes a cursor to the key of the last item of the previous page.
pub(crate) fn key(cursor: Option<&str>) -> Result<Option<String>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|key| !key.contains('\0'));
    key.map(Some).ok_or_else(invalid_cursor)
}

/// Returns the error for a cursor that no page has returned.
pub(crate) fn invalid_cursor() -> Error {
    Error::invalid("cursor", "is not the cursor of a page: start again without a cursor")
}
