//! Accounts for the memory of responses until clients have read them.
//!
//! A client that sends requests but reads no responses makes the process hold them. So a response that is not small
//! claims its memory from a budget, and returns it when its last byte has been written. The watchdog closes
//! connections whose client does not read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use tidegate_http2::{MemoryBudget, MemoryClaim};

use super::stream::Activity;

/// Responses of up to this many bytes claim no memory: they are included in the cost of a connection.
const SMALL_BYTES: u64 = 2 << 10;

/// A response body whose memory is counted.
pub struct HeldBody<B> {
    body: B,
    /// For HTTP/2: the claim, shared with the pieces that wait to be sent.
    held: Option<Arc<Held>>,
}

/// The memory claim of a response that is not sent yet.
struct Held {
    activity: Arc<Activity>,
    _claim: Option<MemoryClaim>,
}

/// A piece of a response that waits to be sent.
struct HeldBytes {
    bytes: Bytes,
    _held: Arc<Held>,
}

/// Claims the memory of a response. If the budget has no room, the response is replaced by a 503.
pub fn hold<B: Body + Default>(
    response: Response<B>,
    version: Version,
    budget: &MemoryBudget,
    activity: &Arc<Activity>,
) -> Response<HeldBody<B>> {
    // A streamed response has no length, and is produced as the client reads it.
    let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > 0) else {
        return response.map(|body| HeldBody { body, held: None });
    };
    let claim = if bytes > SMALL_BYTES {
        match budget.take(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            None => return no_room(),
            claim => claim,
        }
    } else {
        None
    };
    let held = if version == Version::HTTP_2 {
        Some(Arc::new(Held::new(activity, claim)))
    } else {
        // HTTP/1 copies the body to its buffer, and sends one response after the other.
        if let Some(claim) = claim {
            activity.hold_response(claim);
        }
        None
    };
    response.map(|body| HeldBody { body, held })
}

fn no_room<B: Default>() -> Response<HeldBody<B>> {
    let mut response = Response::new(HeldBody { body: B::default(), held: None });
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

impl<B: Default> HeldBody<B> {
    /// Returns an empty body.
    pub fn empty() -> Self {
        Self { body: B::default(), held: None }
    }
}

impl Held {
    fn new(activity: &Arc<Activity>, claim: Option<MemoryClaim>) -> Self {
        activity.note_response();
        Self { activity: Arc::clone(activity), _claim: claim }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.activity.note_response_sent();
    }
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for HeldBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let Some(held) = &self.held else { return polled };
        let owned = |bytes| Bytes::from_owner(HeldBytes { bytes, _held: Arc::clone(held) });
        polled.map_ok(|frame| frame.map_data(owned))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
