//! `POST /json`: Envoy's `RateLimitRequest` as protojson, as in envoyproxy/ratelimit.
//!
//! It is meant for tools and people, so speed does not matter: the request is converted to a protobuf message,
//! decided like a gRPC call, and the response is converted back.

use std::sync::LazyLock;

use http::{Response, StatusCode};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use tonic::{Code as Grpc, Status};

use super::{Body, HttpApi, response};
use crate::grpc::rls_response::Code;
use crate::problem::Problem;
use crate::protocols;
use crate::request_id::RequestId;

static MESSAGES: LazyLock<Option<Messages>> = LazyLock::new(Messages::find);

struct Messages {
    request: MessageDescriptor,
    response: MessageDescriptor,
}

impl Messages {
    fn find() -> Option<Self> {
        let pool = DescriptorPool::decode(protocols::DESCRIPTORS).ok()?;
        let message = |name| pool.get_message_by_name(name);
        Some(Self {
            request: message("envoy.service.ratelimit.v3.RateLimitRequest")?,
            response: message("envoy.service.ratelimit.v3.RateLimitResponse")?,
        })
    }
}

impl HttpApi {
    /// Responds with 200, or 429 if the request is over a limit; 400 if it is invalid, 500 if the service fails.
    pub(super) async fn json(&self, message: &[u8], id: RequestId<'_>) -> Result<Response<Body>, Problem> {
        let messages = MESSAGES
            .as_ref()
            .ok_or_else(|| broken(&"the protocols compiled into the program are damaged"))?;
        let mut json = serde_json::Deserializer::from_slice(message);
        let request = DynamicMessage::deserialize(messages.request.clone(), &mut json)?;
        json.end()?;
        let mut answer = Vec::with_capacity(256);
        let code = self.rate_limit.answer(&request.encode_to_vec(), id, &mut answer).await;
        let code = code.map_err(|status| refused(&status))?;
        let answer = DynamicMessage::decode(messages.response.clone(), answer.as_slice())
            .map_err(|error| broken(&error))?;
        let body = serde_json::to_vec(&answer).map_err(|error| broken(&error))?;
        let status = match code {
            Code::Ok => StatusCode::OK,
            Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        };
        Ok(response(status, "application/json", body))
    }
}

fn refused(status: &Status) -> Problem {
    let ours = status.code() != Grpc::InvalidArgument;
    let code = if ours { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST };
    Problem::new(code, status.message().to_owned())
}

fn broken(why: &impl ToString) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string())
}
