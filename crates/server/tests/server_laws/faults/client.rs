//! One client, over gRPC or HTTP, that takes nothing but a well-formed answer.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use prost_types::value::Kind;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

use crate::support::clients::envoy::service::ratelimit::v3::rate_limit_response::Code;
use crate::support::clients::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::support::clients::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::support::grpc::descriptor;

/// After this an answer is missing, not late.
const NO_ANSWER: Duration = Duration::from_secs(5);

/// What a decision was taken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The shared store.
    Redis,
    /// The rule's `on_store_error`.
    Fallback,
    /// Nothing: no limit applied.
    Nothing,
}

impl Source {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "redis" => Ok(Self::Redis),
            "fallback" => Ok(Self::Fallback),
            other => Err(format!("a source of {other}")),
        }
    }
}

/// A decision as the client got it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) allowed: bool,
    pub(super) source: Source,
}

/// A connection to a node.
pub(super) enum Client {
    Grpc(RateLimitServiceClient<Channel>),
    Http(SendRequest<Full<Bytes>>),
}

impl Client {
    pub(super) async fn grpc(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        Self::Grpc(RateLimitServiceClient::new(endpoint.connect().await.expect("it listens")))
    }

    pub(super) async fn http(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("it listens");
        let io = TokioIo::new(stream);
        let (client, connection) = hyper::client::conn::http1::handshake(io).await.expect("HTTP");
        tokio::spawn(connection);
        Self::Http(client)
    }

    /// Asks for one unit; an error is anything but an answer.
    pub(super) async fn ask(&mut self, key: &str, value: &str) -> Result<Decision, String> {
        let answer = async {
            match self {
                Self::Grpc(client) => {
                    let descriptors = vec![descriptor(&[(key, value)])];
                    let request =
                        RateLimitRequest { domain: super::DOMAIN.to_owned(), descriptors, hits_addend: 0 };
                    let answer = client.should_rate_limit(request).await;
                    read_grpc(&answer.map_err(|status| status.to_string())?.into_inner())
                }
                Self::Http(client) => {
                    let domain = super::DOMAIN;
                    let body = format!(r#"{{"domain":"{domain}","descriptor":{{"{key}":"{value}"}}}}"#);
                    let (status, body) = post(client, "/v1/check", body).await?;
                    read_http(status, &body)
                }
            }
        };
        timeout(NO_ANSWER, answer).await.unwrap_or_else(|_| Err(format!("no answer in {NO_ANSWER:?}")))
    }
}

/// POSTs JSON over a connection that stays; gives the status and the body.
pub(super) async fn post(
    client: &mut SendRequest<Full<Bytes>>,
    path: &str,
    body: String,
) -> Result<(u16, serde_json::Value), String> {
    let request = http::Request::post(path).header("host", "t").header("content-type", "application/json");
    let request = request.body(Full::from(body)).map_err(|error| error.to_string())?;
    client.ready().await.map_err(|error| error.to_string())?;
    let answer = client.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    if body.is_empty() {
        return Ok((status, serde_json::Value::Null));
    }
    Ok((status, serde_json::from_slice(&body).map_err(|error| error.to_string())?))
}

fn read_grpc(answer: &RateLimitResponse) -> Result<Decision, String> {
    let allowed = match answer.overall_code() {
        Code::Ok => true,
        Code::OverLimit => false,
        Code::Unknown => return Err(format!("{answer:?}")),
    };
    let source = match &answer.dynamic_metadata {
        None => Source::Nothing,
        Some(metadata) => match metadata.fields.get("source").and_then(|value| value.kind.as_ref()) {
            Some(Kind::StringValue(name)) => Source::named(name)?,
            other => return Err(format!("a source of {other:?}")),
        },
    };
    Ok(Decision { allowed, source })
}

fn read_http(status: u16, body: &serde_json::Value) -> Result<Decision, String> {
    let allowed = match status {
        200 => true,
        429 => false,
        other => return Err(format!("{other}: {body}")),
    };
    if body["allowed"] != allowed {
        return Err(format!("{status} with {body}"));
    }
    Ok(Decision { allowed, source: Source::named(body["source"].as_str().unwrap_or_default())? })
}
