//! HTTP over persistent connections.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use crate::error::ClientError;

/// The largest response in bytes. A thousand decisions take about 500 KiB.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The number of idle connections that are kept open.
const IDLE_CONNECTIONS: usize = 8;

const IDLE_TIME: Duration = Duration::from_mins(1);

const FORKED: &str = "this process was forked from the one that built the client; build it in the child";

type BoxError = Box<dyn Error + Send + Sync>;

/// Opens connections, with TLS for https.
type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;

/// An HTTP client for one service.
pub(crate) struct Transport {
    client: Client<Connector, Full<Bytes>>,
    /// The URL of the service, without a final slash.
    url: String,
    authorization: Option<HeaderValue>,
    deadline: Duration,
    /// The ID of the process that opened the connections. A forked process shares their sockets, and would read the
    /// responses to its parent's requests.
    process: u32,
}

/// A response with its complete body.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The member of a problem document (RFC 9457) that says what to do.
#[derive(Deserialize)]
struct Problem {
    detail: Option<String>,
}

impl Transport {
    pub(crate) fn new(
        url: String,
        tls: ClientConfig,
        authorization: Option<HeaderValue>,
        deadline: Duration,
    ) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connector(tls, deadline));
        Self { client, url, authorization, deadline, process: std::process::id() }
    }

    /// Sends JSON and returns the response. A status of 500 or above is an error; a status of 4xx is returned to the
    /// caller.
    pub(crate) async fn post(&self, path: &str, body: Vec<u8>) -> Result<Response, ClientError> {
        if self.process != std::process::id() {
            return Err(ClientError::Unreachable(FORKED.to_owned()));
        }
        let response = timeout(self.deadline, self.exchange(path, body)).await;
        let response = response.unwrap_or(Err(ClientError::Timeout(self.deadline)))?;
        if response.status.is_server_error() {
            let detail = detail_of(&response.body);
            return Err(ClientError::Server { status: response.status.as_u16(), detail });
        }
        Ok(response)
    }

    async fn exchange(&self, path: &str, body: Vec<u8>) -> Result<Response, ClientError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        let uri = format!("{}{path}", self.url);
        *request.uri_mut() =
            uri.parse().map_err(|error| ClientError::Unreachable(format!("{uri}: {error}")))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // If the service has a custom body for denials, it sends the problem document instead because of this header.
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, application/problem+json"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let response = self.client.request(request).await.map_err(|error| unreachable_by(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| ClientError::Unreachable(error.to_string()))?.to_bytes();
        Ok(Response { status: head.status, headers: head.headers, body })
    }
}

/// Returns a connector that applies the deadline to connecting and to the TLS handshake. A handshake that the caller
/// no longer waits for continues in the background, and without a deadline would never end if the service hangs.
fn connector(tls: ClientConfig, deadline: Duration) -> Connector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    // Without this, it would reject https URLs, which the TLS connector around it handles.
    tcp.enforce_http(false);
    let https =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
    let within_deadline = https.map_future(move |connecting| async move {
        let connected = timeout(deadline, connecting).await;
        connected.unwrap_or_else(|_| Err(format!("connecting took longer than {deadline:?}").into()))
    });
    BoxCloneSyncService::new(within_deadline)
}

/// Returns an error with all its causes, because the outermost message alone says little.
fn unreachable_by(error: &(dyn Error + 'static)) -> ClientError {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    ClientError::Unreachable(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}

impl Response {
    /// Converts the response to the error for a rejected request.
    pub(crate) fn rejection(&self) -> ClientError {
        ClientError::Rejected { status: self.status.as_u16(), detail: detail_of(&self.body) }
    }
}

/// Returns the reason in a body: the detail of a problem document, or else the beginning of the body.
pub(crate) fn detail_of(body: &[u8]) -> String {
    let problem = serde_json::from_slice::<Problem>(body).ok();
    let detail = problem.and_then(|problem| problem.detail);
    detail.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned())
}

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;

    use super::*;
    use crate::tls;

    #[tokio::test]
    async fn a_process_that_was_forked_does_not_use_its_parents_connections() {
        let tls = tls::config(RootCertStore::empty()).expect("a configuration");
        let transport = Transport::new("http://127.0.0.1:9".to_owned(), tls, None, Duration::from_secs(1));
        let forked = Transport { process: std::process::id().wrapping_add(1), ..transport };
        let refused = forked.post("/v1/check", Vec::new()).await.err();
        assert_eq!(refused, Some(ClientError::Unreachable(FORKED.to_owned())));
    }
}
