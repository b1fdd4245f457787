//! The memory of responses until their clients have read them.
//!
//! A client that sends requests and reads no responses makes the process hold them. So a response that is not small
//! takes its memory from a budget, and gives it back when its last byte is on its way. The watchdog ends connections
//! whose client does not read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use tidegate_http2::{MemoryBudget, MemoryClaim};

use super::stream::Activity;

/// Responses of up to this many bytes need no memory of the budget: they are part of what a connection costs.
const SMALL_BYTES: u64 = 2 << 10;

/// The body of a response whose memory is accounted.
pub struct HeldBody<B> {
    body: B,
    /// Over HTTP/2, shared with the pieces that wait to be sent.
    held: Option<Arc<Held>>,
}

/// A response that the client has not read yet.
struct Held {
    activity: Arc<Activity>,
    _claim: Option<MemoryClaim>,
}

/// A piece of a response that waits to be sent.
struct HeldBytes {
    bytes: Bytes,
    _held: Arc<Held>,
}

/// Takes the memory of a response. One that finds no room is replaced by a 503.
pub fn hold<B: Body + Default>(
    response: Response<B>,
    version: Version,
    budget: &MemoryBudget,
    activity: &Arc<Activity>,
) -> Response<HeldBody<B>> {
    // A response that is a stream has no length, and is made as the client reads it.
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
