//! The service that handles requests.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;

use crate::Inbox;

/// Handles the requests of a connection.
///
/// [`Service::route`] selects one of two paths by the request head. On the fast path, the body is collected and
/// passed whole to [`Service::answer`]. All other requests go to [`Service::call`] with a body that is streamed.
pub trait Service: Send + 'static {
    /// The result of routing a request head. Clients repeat heads byte for byte, so it is computed once and cloned.
    type Call: Clone + Send + 'static;
    /// The body type of the responses of [`Service::call`].
    type Body: Body<Data = Bytes> + Send + Unpin + 'static;

    /// Returns how to handle requests with this head if their body is to be collected; `None` selects
    /// [`Service::call`].
    fn route(&self, head: &Request<()>) -> Option<Self::Call>;

    /// Returns whether a request is handled even if headers beyond the limits were dropped from its head. A proxy may
    /// copy such headers from its clients, and must not be rejected for them.
    fn takes_cut_head(&self, _call: &Self::Call) -> bool {
        false
    }

    /// Handles a request with a collected body. To respond, appends a message without the gRPC prefix to `out` and
    /// returns [`Answer::Message`]. `out` is not empty.
    fn answer(&self, call: &Self::Call, body: Whole<'_>, out: &mut Vec<u8>) -> Answer;

    /// Returns whether a streamed request is accepted even when the memory budget is exhausted. Health checks must
    /// be.
    fn is_exempt(&self, _head: &Request<Inbox>) -> bool {
        false
    }

    /// Handles a request with a streamed body.
    fn call(&self, request: Request<Inbox>) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// A collected request body, or the reason it is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole<'a> {
    /// The whole body, including the gRPC prefix.
    Bytes(&'a [u8]),
    /// The body is larger than the settings allow.
    TooLong,
    /// The body was incomplete after this time.
    Late(Duration),
    /// The memory budget has no room for the body.
    NoRoom,
}

/// The result of handling a request with a collected body.
pub enum Answer {
    /// The response message was appended to the output.
    Message,
    /// The request is rejected.
    Refused(Refusal),
    /// The request is rejected because no service handles it. A client that sends many of these is disconnected.
    Misdirected(Refusal),
    /// The response is produced by a future, while the connection handles other requests.
    Later(Later),
}

/// A future that returns a response message, or the headers of a rejection.
pub type Later = Pin<Box<dyn Future<Output = Result<Vec<u8>, Refusal>> + Send>>;

/// The headers of a response without a message, such as `content-type` and `grpc-status`. `:status` is always 200 and
/// is not included.
pub type Refusal = HeaderMap;
