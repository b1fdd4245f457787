//! The body of a request.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap};
use tokio::time::timeout;

use super::problem::Problem;
use crate::bounds::Bounds;

/// How long a client may take to send a body. All of it fits into a few packets.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// All of a body, if it is within bounds.
pub(super) async fn body<B>(body: B, bounds: &Bounds) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    // What the head announces; a body of unknown length announces nothing.
    within(bounds, usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX))?;
    timeout(PATIENCE, collect(body, bounds)).await.unwrap_or_else(|_| {
        let detail = format!("the body did not come within {PATIENCE:?}; send it with the request");
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
    })
}

/// Most bodies come in one piece, which is taken as it is.
async fn collect<B>(mut body: B, bounds: &Bounds) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while !body.is_end_stream() {
        let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await else { break };
        let frame = frame.map_err(|error| Problem::bad(format!("the body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        within(bounds, first.len() + more.len() + data.len())?;
        if first.is_empty() {
            first = data;
        } else {
            more.extend_from_slice(&data);
        }
    }
    if more.is_empty() {
        return Ok(first);
    }
    let mut all = BytesMut::with_capacity(first.len() + more.len());
    all.extend_from_slice(&first);
    all.extend_from_slice(&more);
    Ok(all.freeze())
}

fn within(bounds: &Bounds, found: usize) -> Result<(), Problem> {
    let too_long =
        |refusal: crate::bounds::Refusal| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, refusal.to_string());
    bounds.message(found).map_err(too_long)
}
