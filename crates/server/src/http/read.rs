//! The body of a request.

use std::fmt::Display;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap};

use super::problem::Problem;
use crate::body::{BodyError, collect};
use crate::bounds::Bounds;

/// Refuses a body that says it is something else than JSON. Parameters do not matter.
pub(super) fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(found) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let found = found.as_bytes();
    let end = found.iter().position(|byte| *byte == b';').unwrap_or(found.len());
    if found[..end].trim_ascii().eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let found = String::from_utf8_lossy(found);
    let detail = format!("the content type must be application/json, got {found:?}");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// Whether whoever asks says that a problem is welcome; `*/*` says nothing, and a weight of 0 says no.
pub(super) fn accepts_problems(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter();
    let mut ranges = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    ranges.any(|range| {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"application/problem+json"));
        named && !parts.any(is_zero_weight)
    })
}

/// `q=0`, `q=0.0` and the like.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| !weight.is_empty() && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
}

/// All of a body, if it is within bounds.
pub(super) async fn body<B>(body: B, bounds: &Bounds) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    collect(body, bounds.message_bytes).await.map_err(|error| match error {
        BodyError::TooLong { found } => {
            let detail =
                bounds.message(found).map_or_else(|refusal| refusal.to_string(), |()| error.to_string());
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
        }
        BodyError::Late => Problem::new(StatusCode::REQUEST_TIMEOUT, error.to_string()),
        BodyError::Broken(_) => Problem::bad(error.to_string()),
    })
}
