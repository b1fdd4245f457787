//! The gRPC front end: Envoy's rate limit protocol, `tidegate.v1`, health and reflection on one port.
//!
//! The message of a rate limit or `tidegate.v1` call is collected by the connection, within bounds, before the call
//! starts. Health and reflection are streaming calls, and are served by tonic.
//!
//! - [`rls_request`], [`rls_response`]: parse and write Envoy's messages
//! - `canonical`: rewrites requests that exceed the bounds
//! - [`rate_limit`][]: `ShouldRateLimit`
//! - `tidegate_v1`: shared code of the `tidegate.v1` calls; `permits`, `reservations`: its services

mod canonical;
mod permits;
pub mod rate_limit;
mod reservations;
pub mod rls_request;
pub mod rls_response;
mod tidegate_v1;

use std::sync::Arc;

use bytes::Buf;
use http::{HeaderValue, Request, Response, header};
use prost::Message;
use tidegate_http2::{Answer, Inbox, Later, MemoryBudget, MemoryClaim, Refusal, Server, Service, Whole};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tower_service::Service as _;
use tracing::{Instrument, Span};

use self::rate_limit::RateLimit;
use self::tidegate_v1::TidegateV1;
use crate::access::{Credential, TokenRegistry};
use crate::body::{BodyError, PATIENCE};
use crate::config::Settings;
use crate::listen::connection::Connection;
use crate::listen::listener::{Api, Serving};
use crate::listen::stream::Activity;
use crate::memory::{Memory, deciding_bytes};
use crate::request_id::{RequestId, X_REQUEST_ID};
use crate::{protocols, trace};

/// The methods whose message is collected before the call starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the protocols")]
pub enum Method {
    ShouldRateLimit,
    Acquire,
    Renew,
    Release,
    Reserve,
    Settle,
}

/// The health methods, which tonic serves and which need no token.
const HEALTH: [&str; 2] = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];
/// The path prefix of the reflection methods, which tonic serves.
const REFLECTION: &str = "/grpc.reflection.";

impl Method {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Self::ShouldRateLimit,
            "/tidegate.v1.Permits/Acquire" => Self::Acquire,
            "/tidegate.v1.Permits/Renew" => Self::Renew,
            "/tidegate.v1.Permits/Release" => Self::Release,
            "/tidegate.v1.Reservations/Reserve" => Self::Reserve,
            "/tidegate.v1.Reservations/Settle" => Self::Settle,
            _ => return None,
        })
    }

    /// Returns whether the method makes a decision.
    fn decides(self) -> bool {
        matches!(self, Self::ShouldRateLimit | Self::Acquire | Self::Reserve)
    }
}

/// Returns whether a path is that of a known method. Reflection methods are not included.
pub(crate) fn is_known(path: &str) -> bool {
    Method::of(path).is_some() || HEALTH.contains(&path)
}

/// Length of the gRPC message prefix: one byte for compression, four for the message length.
pub const PREFIX_BYTES: usize = 5;

/// Maximum concurrent health and reflection calls on one connection. Each has its own buffers.
const MAX_CALLS: usize = 256;

/// Maximum size of a health or reflection request: the name of a service or of a type.
const CALL_MESSAGE_BYTES: usize = 4 << 10;

/// Initial capacity for a response message.
const ANSWER_BYTES: usize = 192;

/// The gRPC front end. Cheap to clone.
#[derive(Clone)]
pub struct GrpcApi(Arc<Inner>);

struct Inner {
    rate_limit: RateLimit,
    tidegate: TidegateV1,
    /// Serves health and reflection.
    streaming: Routes,
    /// The accepted tokens; `None` if calls need no token.
    tokens: Option<TokenRegistry>,
    /// The memory that all connections share: for bodies that have not arrived completely, calls in progress, and
    /// responses that clients have not read.
    budget: MemoryBudget,
    /// The memory budget of calls that wait for a store.
    deciding: MemoryBudget,
    http2: tidegate_http2::Settings,
}

/// A call as described by its request head. It is built once, and cloned for every request with the same head.
#[derive(Clone)]
pub enum Call {
    /// A call of a method whose message is collected.
    Method {
        /// The called method.
        method: Method,
        /// Whether the content type is that of gRPC.
        is_grpc: bool,
        /// The token in the head, if one is required.
        credential: Option<Arc<Credential>>,
        /// The request ID, if request IDs are recorded.
        request_id: Option<Arc<HeaderValue>>,
        /// The request head, if the request is traced.
        traced: Option<Arc<Request<()>>>,
    },
    /// A call with a path that belongs to no method.
    Unknown,
}

impl GrpcApi {
    /// Creates the API, including health and reflection. With `tokens`, all calls except health need one of them.
    ///
    /// # Errors
    /// Returns an error if the protocol descriptors compiled into the program cannot be parsed.
    pub fn new(
        rate_limit: RateLimit,
        health: HealthServer<impl HealthService>,
        tokens: Option<TokenRegistry>,
        memory: &Memory,
        settings: &Settings,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(protocols::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // Older tools use only the alpha version. The memory that tonic uses for a message is not in the budget.
        let reflection_v1 = reflection().build_v1()?.max_decoding_message_size(CALL_MESSAGE_BYTES);
        let alpha = reflection().build_v1alpha()?.max_decoding_message_size(CALL_MESSAGE_BYTES);
        let (reflection, health) = (reflection_v1, health.max_decoding_message_size(CALL_MESSAGE_BYTES));
        let streaming = Routes::new(health).add_service(reflection).add_service(alpha).prepare();
        let tidegate = TidegateV1 { decider: rate_limit.decider.clone(), bounds: rate_limit.bounds };
        let grpc = &settings.grpc;
        let http2 = tidegate_http2::Settings {
            max_streams: grpc.max_streams,
            header_bytes: settings.header_bytes,
            body_bytes: rate_limit.bounds.message_bytes.saturating_add(PREFIX_BYTES),
            body_patience: PATIENCE,
            max_calls: MAX_CALLS,
            keep_alive: grpc.keepalive_interval.map(|interval| (interval, grpc.keepalive_timeout)),
        };
        let (budget, deciding) = (memory.streams().clone(), memory.deciding().clone());
        Ok(Self(Arc::new(Inner { rate_limit, tidegate, streaming, tokens, budget, deciding, http2 })))
    }

    /// Handles a call that waits for a store. The message is copied.
    fn later(
        &self,
        span: Span,
        (method, id): (Method, Option<Arc<HeaderValue>>),
        message: &[u8],
        claim: MemoryClaim,
    ) -> Later {
        let (inner, message) = (Arc::clone(&self.0), message.to_vec());
        let call_span = span.clone();
        let answered = async move {
            let mut out = Vec::with_capacity(ANSWER_BYTES);
            let answered = inner.answer(method, &message, RequestId::of_value(id.as_deref()), &mut out).await;
            let answered = answered.inspect_err(|_| inner.count_refusal(method));
            trace::grpc_status(&call_span, code_of(&answered));
            drop((message, claim));
            answered.map(|()| out).map_err(refusal)
        };
        Box::pin(answered.instrument(span))
    }
}

impl Inner {
    /// Rejects a call without a valid token, if one is required.
    fn expect_token(&self, credential: impl FnOnce() -> Option<Arc<Credential>>) -> Result<(), Status> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let credential = credential().unwrap_or_else(|| Arc::new(Credential::of_token(None)));
        tokens.admit(&credential).map_err(|unknown| Status::unauthenticated(unknown.reason()))
    }

    /// Handles a call at once, or returns its message if the call has to wait for a store.
    fn answer_now<'b>(
        &self,
        method: Method,
        body: Whole<'b>,
        id: RequestId<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(&'b [u8], MemoryClaim)>, Status> {
        let is_rate_limit = method == Method::ShouldRateLimit;
        let message = match body {
            Whole::Bytes(body) => unframed(body)?,
            Whole::TooLong if is_rate_limit => return self.rate_limit.answer_too_long(out).map(|_| None),
            Whole::NoRoom => return self.answer_no_room(method, out).map(|()| None),
            Whole::TooLong => return Err(self.rate_limit.bounds.message_too_long().into()),
            Whole::Late(_) => return Err(Status::deadline_exceeded(BodyError::Late.to_string())),
        };
        if !is_rate_limit || self.rate_limit.decider.limiter().is_shared() {
            return match self.deciding.take(deciding_bytes(message.len())) {
                Some(claim) => Ok(Some((message, claim))),
                None => self.answer_no_room(method, out).map(|()| None),
            };
        }
        self.rate_limit.answer_now(message, id, out)?;
        Ok(None)
    }

    /// Responds to a call when there is no memory for it.
    fn answer_no_room(&self, method: Method, out: &mut Vec<u8>) -> Result<(), Status> {
        match method {
            Method::ShouldRateLimit => self.rate_limit.answer_no_room(out).map(drop),
            _ => Err(Status::resource_exhausted(BodyError::NoRoom.to_string())),
        }
    }

    async fn answer(
        &self,
        method: Method,
        message: &[u8],
        id: RequestId<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let tidegate = &self.tidegate;
        match method {
            Method::ShouldRateLimit => self.rate_limit.answer(message, id, out).await.map(drop),
            Method::Acquire => unary(message, out, |request| tidegate.acquire(request, id)).await,
            Method::Renew => unary(message, out, |request| tidegate.renew(request)).await,
            Method::Release => unary(message, out, |request| tidegate.release(request)).await,
            Method::Reserve => unary(message, out, |request| tidegate.reserve(request, id)).await,
            Method::Settle => unary(message, out, |request| tidegate.settle(request)).await,
        }
    }

    fn count_refusal(&self, method: Method) {
        if method.decides() {
            self.rate_limit.decider.count_refused(1);
        }
    }
}

/// Decodes a message, calls `answer` with it and encodes the response.
async fn unary<Q, A, F>(message: &[u8], out: &mut Vec<u8>, answer: impl FnOnce(Q) -> F) -> Result<(), Status>
where
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<A, Status>>,
{
    let request = Q::decode(message)
        .map_err(|error| Status::invalid_argument(format!("the message cannot be decoded: {error}")))?;
    out.extend(answer(request).await?.encode_to_vec());
    Ok(())
}

fn code_of<T>(answered: &Result<T, Status>) -> Code {
    answered.as_ref().map_or_else(Status::code, |_| Code::Ok)
}

fn refusal(status: Status) -> Refusal {
    status.into_http::<Body>().into_parts().0.headers
}

impl Api for GrpcApi {
    fn serve<'c>(&'c self, connection: Connection<'c>) -> Serving<'c> {
        let start = |io, activity: Arc<Activity>| {
            let server = Server::new(io, self.clone(), self.0.http2).with_budget(self.0.budget.clone());
            server.watched_by(move |begun, open| activity.note_requests(begun, open))
        };
        Box::pin(connection.serve_with(start, |server| server.get_mut().graceful_shutdown()))
    }
}

impl Service for GrpcApi {
    type Call = Call;
    type Body = Body;

    fn route(&self, head: &Request<()>) -> Option<Call> {
        let path = head.uri().path();
        let Some(method) = Method::of(path) else {
            // Rejecting an unknown path here costs no more than a decision.
            let is_streaming = HEALTH.contains(&path) || path.starts_with(REFLECTION);
            return if is_streaming { None } else { Some(Call::Unknown) };
        };
        if head.method() != http::Method::POST {
            return None;
        }
        let content_type = head.headers().get(header::CONTENT_TYPE);
        let is_grpc = content_type.is_some_and(|found| found.as_bytes().starts_with(b"application/grpc"));
        let credential = self.0.tokens.is_some().then(|| Arc::new(Credential::of_headers(head.headers())));
        let traced = self.0.rate_limit.decider.is_traced().then(|| Arc::new(head.clone()));
        let request_id = head.headers().get(&X_REQUEST_ID).filter(|_| method.decides());
        let request_id = request_id.map(|id| Arc::new(id.clone()));
        Some(Call::Method { method, is_grpc, credential, request_id, traced })
    }

    /// Envoy lets a request pass if its call is rejected, and may copy headers of the request into the call.
    fn takes_cut_head(&self, call: &Call) -> bool {
        matches!(call, Call::Method { .. }) && self.0.rate_limit.bounds.counts_odd_values()
    }

    fn answer(&self, call: &Call, body: Whole<'_>, out: &mut Vec<u8>) -> Answer {
        let Call::Method { method, is_grpc, credential, request_id, traced } = call else {
            return Answer::Misdirected(refusal(Status::unimplemented("")));
        };
        let span = traced.as_ref().map_or_else(Span::none, |head| trace::span(head));
        let answered = span.in_scope(|| {
            if !is_grpc {
                return Err(Status::invalid_argument("content-type must be application/grpc"));
            }
            self.0.expect_token(|| credential.clone())?;
            let id = RequestId::of_value(request_id.as_deref());
            self.0.answer_now(*method, body, id, out).inspect_err(|_| self.0.count_refusal(*method))
        });
        let answered = match answered {
            Ok(Some((message, claim))) => {
                let called = (*method, request_id.clone());
                return Answer::Later(self.later(span, called, message, claim));
            }
            answered => answered.map(drop),
        };
        trace::grpc_status(&span, code_of(&answered));
        match answered {
            Ok(()) => Answer::Message,
            Err(status) => Answer::Refused(refusal(status)),
        }
    }

    fn is_exempt(&self, head: &Request<Inbox>) -> bool {
        HEALTH.contains(&head.uri().path())
    }

    fn call(&self, request: Request<Inbox>) -> impl Future<Output = Response<Body>> + Send + 'static {
        let mut streaming = self.0.streaming.clone();
        let is_traced = self.0.rate_limit.decider.is_traced();
        let span = if is_traced { trace::span(&request) } else { Span::none() };
        let admitted = if HEALTH.contains(&request.uri().path()) {
            Ok(())
        } else {
            self.0.expect_token(|| Some(Arc::new(Credential::of_headers(request.headers()))))
        };
        let answered = async move {
            if let Err(status) = admitted {
                trace::grpc_status(&Span::current(), status.code());
                return status.into_http();
            }
            match streaming.call(request.map(Body::new)).await {
                Ok(response) => {
                    let refused = Status::from_header_map(response.headers());
                    // A response head without a status belongs to a call that has succeeded so far.
                    trace::grpc_status(&Span::current(), refused.map_or(Code::Ok, |status| status.code()));
                    response
                }
                Err(never) => match never {},
            }
        };
        answered.instrument(span)
    }
}

/// Returns the single message of a body.
fn unframed(mut body: &[u8]) -> Result<&[u8], Status> {
    if body.len() < PREFIX_BYTES {
        return Err(Status::invalid_argument("the request has no message"));
    }
    let compressed = body.get_u8() != 0;
    let length = body.get_u32() as usize;
    if compressed {
        return Err(Status::unimplemented("compressed messages are not supported; send them as they are"));
    }
    if length != body.len() {
        let found = body.len();
        return Err(Status::invalid_argument(format!(
            "the request must have one message: {length} bytes were announced, {found} came"
        )));
    }
    Ok(body)
}
