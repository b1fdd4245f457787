//! The gRPC front end: Envoy's rate limit protocol on a lean path of its own, everything else by
//! tonic on the same port.
//!
//! - [`read`], [`write`]: Envoy's messages from and to bytes
//! - [`rate_limit`][]: `ShouldRateLimit`
//! - [`permits`][]: `tidegate.v1.Permits`
//! - [`body`]: the body of an answer

pub mod body;
pub mod permits;
pub mod rate_limit;
pub mod read;
pub mod write;

use bytes::{Buf, Bytes};
use http::{HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tower_service::Service as _;

use self::body::GrpcBody;
use self::permits::{PermitService, pb::permits_server::PermitsServer};
use self::rate_limit::RateLimit;
use crate::body::{BodyError, collect};
use crate::protocols;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// One byte that says whether the message is compressed, four that say how long it is.
const PREFIX_BYTES: usize = 5;

/// Room for a usual answer; longer ones grow.
const ANSWER_BYTES: usize = 192;

/// Answers gRPC requests. Cheap to clone.
#[derive(Clone)]
pub struct GrpcApi {
    rate_limit: RateLimit,
    others: Routes,
}

impl GrpcApi {
    /// The service with health and reflection beside it.
    ///
    /// # Errors
    /// If the protocols compiled into the program cannot be read.
    pub fn new(
        rate_limit: RateLimit,
        health: HealthServer<impl HealthService>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(protocols::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        let bounds = rate_limit.bounds;
        let permits = PermitService { limiter: rate_limit.limiter.clone(), bounds };
        let permits = PermitsServer::new(permits).max_decoding_message_size(bounds.message_bytes);
        let others = Routes::new(health).add_service(reflection.build_v1()?).add_service(permits).prepare();
        Ok(Self { rate_limit, others })
    }

    /// Answers one request. What goes wrong is an answer too.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<GrpcBody> {
        if request.uri().path() == SHOULD_RATE_LIMIT && request.method() == Method::POST {
            return match self.should_rate_limit(request).await {
                Ok(message) => answer(GrpcBody::Message(message)),
                Err(status) => status.into_http::<tonic::body::Body>().map(GrpcBody::Tonic),
            };
        }
        let mut others = self.others.clone();
        match others.call(request.map(tonic::body::Body::new)).await {
            Ok(response) => response.map(GrpcBody::Tonic),
            Err(never) => match never {},
        }
    }

    async fn should_rate_limit(&self, request: Request<Incoming>) -> Result<Bytes, Status> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        if !content_type.is_some_and(|found| found.as_bytes().starts_with(b"application/grpc")) {
            return Err(Status::invalid_argument("content-type must be application/grpc"));
        }
        let framed = whole(request.into_body(), self.rate_limit.bounds.message_bytes).await?;
        let message = unframed(&framed)?;
        let mut answer = Vec::with_capacity(ANSWER_BYTES);
        answer.extend_from_slice(&[0; PREFIX_BYTES]);
        self.rate_limit.answer(message, &mut answer)?;
        let length = (answer.len() - PREFIX_BYTES) as u32;
        answer[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
        Ok(answer.into())
    }
}

fn answer(body: GrpcBody) -> Response<GrpcBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The whole body; the message in it may be as long as the bound says.
async fn whole(body: Incoming, most: usize) -> Result<Bytes, Status> {
    collect(body, most.saturating_add(PREFIX_BYTES)).await.map_err(|error| match error {
        BodyError::TooLong { .. } => {
            Status::invalid_argument(format!("a request must be at most {most} bytes (bounds.message_bytes)"))
        }
        BodyError::Late => Status::deadline_exceeded(error.to_string()),
        BodyError::Broken(_) => Status::cancelled(error.to_string()),
    })
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
