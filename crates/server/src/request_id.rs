//! The ID that a client gave its request, so that a recorded denial can be found in the client's own logs.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header over HTTP, and the metadata over gRPC.
pub static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Bytes of an ID that are kept; those of common formats have at most 55.
const SHOWN_BYTES: usize = 128;

/// The `x-request-id` of a request, if it has one. As small as a pointer, and read only if the decision is recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestId<'h>(Option<&'h HeaderValue>);

impl<'h> RequestId<'h> {
    /// For requests that have no ID.
    pub const NONE: Self = Self(None);

    /// Returns the ID in these headers.
    pub fn of(headers: &'h HeaderMap) -> Self {
        Self(headers.get(&X_REQUEST_ID))
    }

    /// Returns the ID that a header has.
    #[inline]
    pub fn of_value(value: Option<&'h HeaderValue>) -> Self {
        Self(value)
    }

    /// Returns the first 128 bytes as text; bytes that are not UTF-8 are replaced. `None` if there is no ID.
    pub fn text(self) -> Option<Box<str>> {
        let text = String::from_utf8_lossy(self.0?.as_bytes());
        let shown = &text[..text.floor_char_boundary(SHOWN_BYTES)];
        (!shown.is_empty()).then(|| shown.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &[u8]) -> Option<Box<str>> {
        let mut headers = HeaderMap::new();
        headers.insert(&X_REQUEST_ID, HeaderValue::from_bytes(value).expect("a valid header"));
        RequestId::of(&headers).text()
    }

    #[test]
    fn an_id_is_cut_and_made_valid_text() {
        assert_eq!(text(b"7b1f-22").as_deref(), Some("7b1f-22"));
        assert_eq!(text(b"").as_deref(), None);
        assert_eq!(text(b"a\xff").as_deref(), Some("a\u{fffd}"));
        assert_eq!(text("é".repeat(100).as_bytes()).map(|text| text.len()), Some(128));
        assert_eq!(RequestId::of(&HeaderMap::new()).text(), None);
    }
}
