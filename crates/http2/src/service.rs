//! Who answers requests.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;

use crate::Inbox;

/// Answers the requests of a connection.
///
/// A request goes one of two ways, by its head. If [`Service::route`] knows it, its body is
/// collected and passed to [`Service::answer`] whole, which is the quick way. Any other is passed to
/// [`Service::call`] as it comes, with a body that streams.
pub trait Service: Send + 'static {
    /// What has to be known of a head to answer the request. Clients repeat heads byte by byte, so
    /// it is found once and cloned.
    type Call: Clone + Send + 'static;
    /// The body of the answers to all other requests.
    type Body: Body<Data = Bytes> + Send + Unpin + 'static;

    /// What to do with requests of this head, if their body is to be collected.
    fn route(&self, head: &Request<()>) -> Option<Self::Call>;

    /// Whether such a request is answered although headers beyond the bounds are missing in its head. A proxy may copy them
    /// from its clients, and must not be refused for them.
    fn takes_cut_head(&self, _call: &Self::Call) -> bool {
        false
    }

    /// Answers a request. A message is added to `out`, which holds other things already, without
    /// gRPC's prefix; [`Answer::Message`] says that it is there.
    fn answer(&self, call: &Self::Call, body: Whole<'_>, out: &mut Vec<u8>) -> Answer;

    /// Whether a request that is not collected is taken even while there is no memory for others, as checks of
    /// health have to be.
    fn is_exempt(&self, _head: &Request<Inbox>) -> bool {
        false
    }

    /// Answers a request that is not collected.
    fn call(&self, request: Request<Inbox>) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// A body that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole<'a> {
    /// All of it, with gRPC's prefix.
    Bytes(&'a [u8]),
    /// It has more bytes than the settings allow.
    TooLong,
    /// It was not there after this long.
    Late(Duration),
    /// There is no memory to hold it.
    NoRoom,
}

/// What becomes of a request.
pub enum Answer {
    /// The message is in the output.
    Message,
    /// It is refused.
    Refused(Refusal),
    /// It is refused because nobody answers such requests at all. A client that sends many of them is sent away.
    Misdirected(Refusal),
    /// The answer takes a while; the connection goes on meanwhile.
    Later(Later),
}

/// A message, or why there is none.
pub type Later = Pin<Box<dyn Future<Output = Result<Vec<u8>, Refusal>> + Send>>;

/// The headers of an answer without a message: `content-type`, `grpc-status` and what else belongs
/// there, but for `:status`, which is 200.
pub type Refusal = HeaderMap;
