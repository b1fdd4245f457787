//! The gRPC front end: Envoy's rate limit protocol on a lean path of its own, everything else by
//! tonic on the same port.
//!
//! - [`read`], [`write`]: Envoy's messages from and to bytes
//! - `canonical`: requests that are not within bounds, in the form that is decided
//! - [`rate_limit`][]: `ShouldRateLimit`
//! - [`permits`][]: `tidegate.v1.Permits`; [`reservations`][]: `tidegate.v1.Reservations`

mod canonical;
pub mod permits;
pub mod rate_limit;
pub mod read;
pub mod reservations;
pub mod write;

use std::sync::Arc;

use bytes::Buf;
use http::{Method, Request, Response, header};
use tidegate_http2::{Answer, Inbox, Later, MemoryBudget, Refusal, Service, Whole};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tower_service::Service as _;
use tracing::{Instrument, Span};

use self::permits::{PermitService, pb::permits_server::PermitsServer};
use self::rate_limit::RateLimit;
use self::reservations::{ReservationService, pb::reservations_server::ReservationsServer};
use crate::access::{Book, Credential};
use crate::body::BodyError;
use crate::{protocols, trace};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The calls that are counted less often.
const OTHERS: [&str; 7] = [
    "/tidegate.v1.Permits/Acquire",
    "/tidegate.v1.Permits/Renew",
    "/tidegate.v1.Permits/Release",
    "/tidegate.v1.Reservations/Reserve",
    "/tidegate.v1.Reservations/Settle",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
];

/// What the paths of reflection begin with.
const REFLECTION: &str = "/grpc.reflection.";
/// What the paths of health begin with, which anybody may ask for.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Whether there is a call of that path; reflection is not asked for in earnest.
pub(crate) fn is_known(path: &str) -> bool {
    path == SHOULD_RATE_LIMIT || OTHERS.contains(&path)
}

/// One byte that says whether the message is compressed, four that say how long it is.
pub const PREFIX_BYTES: usize = 5;

/// Room for a usual answer; longer ones grow.
const ANSWER_BYTES: usize = 192;

/// Answers gRPC requests. Cheap to clone.
#[derive(Clone)]
pub struct GrpcApi {
    rate_limit: RateLimit,
    others: Routes,
    /// The tokens of which one is needed, if one is.
    tokens: Option<Book>,
    /// What the connections may hold together.
    budget: MemoryBudget,
}

/// A call whose body is collected. It is made of the head of a request once, and serves for all requests with
/// the same head.
#[derive(Clone)]
pub enum Call {
    /// `ShouldRateLimit`.
    RateLimit {
        /// Whether the content type says that the body is gRPC.
        is_grpc: bool,
        /// The token it comes with, where one is needed.
        credential: Option<Arc<Credential>>,
        /// What its span is made of, if there is to be one.
        traced: Option<Arc<Request<()>>>,
    },
    /// A path that nothing is behind.
    Unknown,
}

impl GrpcApi {
    /// The service with health and reflection beside it. With `tokens`, all but health needs one of them.
    ///
    /// # Errors
    /// If the protocols compiled into the program cannot be read.
    pub fn new(
        rate_limit: RateLimit,
        health: HealthServer<impl HealthService>,
        tokens: Option<Book>,
        budget: MemoryBudget,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(protocols::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // Older tools ask for the alpha only.
        let (reflection, alpha) = (reflection().build_v1()?, reflection().build_v1alpha()?);
        let bounds = rate_limit.bounds;
        let metrics = rate_limit.metrics.clone();
        let permits = PermitService { limiter: rate_limit.limiter.clone(), bounds, metrics };
        let permits = PermitsServer::new(permits).max_decoding_message_size(bounds.message_bytes);
        let others = Routes::new(health).add_service(reflection).add_service(alpha);
        let reservations = ReservationService { rate_limit: rate_limit.clone() };
        let reservations =
            ReservationsServer::new(reservations).max_decoding_message_size(bounds.message_bytes);
        let others = others.add_service(permits).add_service(reservations).prepare();
        Ok(Self { rate_limit, others, tokens, budget })
    }

    /// What the connections hold together: bodies that have not come whole, calls that are being answered, and
    /// answers that clients do not take.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Bytes of the longest body that is worth collecting.
    pub fn body_bytes(&self) -> usize {
        self.rate_limit.bounds.message_bytes.saturating_add(PREFIX_BYTES)
    }

    /// Refuses whoever has no token, where one is needed.
    fn expect_token(&self, credential: impl FnOnce() -> Option<Arc<Credential>>) -> Result<(), Status> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let credential = credential().unwrap_or_else(|| Arc::new(Credential::of_token(None)));
        tokens.admit(&credential).map_err(|unknown| Status::unauthenticated(unknown.reason()))
    }

    /// Answers at once, or hands back the message where the store takes a while.
    fn should_rate_limit<'b>(
        &self,
        is_grpc: bool,
        credential: Option<&Arc<Credential>>,
        body: Whole<'b>,
        out: &mut Vec<u8>,
    ) -> Result<Option<&'b [u8]>, Status> {
        if !is_grpc {
            return Err(Status::invalid_argument("content-type must be application/grpc"));
        }
        self.expect_token(|| credential.cloned())?;
        let body = match body {
            Whole::Bytes(body) => body,
            Whole::TooLong => return self.rate_limit.answer_too_long(out).map(|_| None),
            Whole::NoRoom => return self.rate_limit.answer_no_room(out).map(|_| None),
            Whole::Late(_) => {
                return Err(Status::deadline_exceeded(BodyError::Late.to_string()));
            }
        };
        let message = unframed(body)?;
        if self.rate_limit.limiter.is_shared() {
            return Ok(Some(message));
        }
        self.rate_limit.answer_now(message, out)?;
        Ok(None)
    }

    /// The answer that the store takes a while for.
    fn later(&self, span: Span, message: &[u8]) -> Later {
        let (rate_limit, message) = (self.rate_limit.clone(), message.to_vec());
        let called = span.clone();
        let answered = async move {
            let mut out = Vec::with_capacity(ANSWER_BYTES);
            let answered = rate_limit.answer(&message, &mut out).await;
            trace::called(&called, code_of(&answered));
            answered.map(|_| out).map_err(refusal)
        };
        Box::pin(answered.instrument(span))
    }
}

fn code_of<T>(answered: &Result<T, Status>) -> Code {
    answered.as_ref().map_or_else(Status::code, |_| Code::Ok)
}

fn refusal(status: Status) -> Refusal {
    status.into_http::<Body>().into_parts().0.headers
}

impl Service for GrpcApi {
    type Call = Call;
    type Body = Body;

    fn route(&self, head: &Request<()>) -> Option<Call> {
        let path = head.uri().path();
        if path != SHOULD_RATE_LIMIT {
            // Said here, it costs no more than a decision.
            let others = OTHERS.contains(&path) || path.starts_with(REFLECTION);
            return if others { None } else { Some(Call::Unknown) };
        }
        if head.method() != Method::POST {
            return None;
        }
        let content_type = head.headers().get(header::CONTENT_TYPE);
        let is_grpc = content_type.is_some_and(|found| found.as_bytes().starts_with(b"application/grpc"));
        let credential = self.tokens.is_some().then(|| Arc::new(Credential::of_headers(head.headers())));
        let traced = self.rate_limit.traced.then(|| Arc::new(head.clone()));
        Some(Call::RateLimit { is_grpc, credential, traced })
    }

    fn answer(&self, call: &Call, body: Whole<'_>, out: &mut Vec<u8>) -> Answer {
        let Call::RateLimit { is_grpc, credential, traced } = call else {
            return Answer::Refused(refusal(Status::unimplemented("")));
        };
        let span = traced.as_ref().map_or_else(Span::none, |head| trace::span(head));
        let answered = span.in_scope(|| self.should_rate_limit(*is_grpc, credential.as_ref(), body, out));
        if let Ok(Some(message)) = answered {
            return Answer::Later(self.later(span, message));
        }
        trace::called(&span, code_of(&answered));
        match answered {
            Ok(_) => Answer::Message,
            Err(status) => Answer::Refused(refusal(status)),
        }
    }

    fn is_exempt(&self, head: &Request<Inbox>) -> bool {
        head.uri().path().starts_with(HEALTH)
    }

    fn call(&self, request: Request<Inbox>) -> impl Future<Output = Response<Body>> + Send + 'static {
        let mut others = self.others.clone();
        let span = if self.rate_limit.traced { trace::span(&request) } else { Span::none() };
        let is_open = request.uri().path().starts_with(HEALTH);
        let admitted = if is_open {
            Ok(())
        } else {
            self.expect_token(|| Some(Arc::new(Credential::of_headers(request.headers()))))
        };
        let answered = async move {
            if let Err(status) = admitted {
                trace::called(&Span::current(), status.code());
                return status.into_http();
            }
            match others.call(request.map(Body::new)).await {
                Ok(response) => {
                    let response = blamed(response);
                    let refused = Status::from_header_map(response.headers());
                    // Where the head has no status, the call has gone well so far.
                    trace::called(&Span::current(), refused.map_or(Code::Ok, |status| status.code()));
                    response
                }
                Err(never) => match never {},
            }
        };
        answered.instrument(span)
    }
}

/// A message that is too long or cannot be read is the client's mistake; tonic takes it for its own, or for
/// one of numbers.
fn blamed(mut response: Response<Body>) -> Response<Body> {
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let unread = match status.code() {
        Code::OutOfRange => status.message().contains("message length too large"),
        Code::Internal => status.message().starts_with("failed to decode"),
        _ => false,
    };
    if unread {
        let text = format!("{} (bounds.message_bytes)", status.message());
        let text = if status.code() == Code::OutOfRange { text } else { status.message().to_owned() };
        *response.headers_mut() = refusal(Status::invalid_argument(text));
    }
    response
}

/// The one message of a body.
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
