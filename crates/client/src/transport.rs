//! HTTP over kept connections.

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

/// Bytes of a response at most: a thousand decisions are about 500 KiB.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Connections that are kept open for the next request.
const IDLE_CONNECTIONS: usize = 8;

const IDLE_TIME: Duration = Duration::from_mins(1);

const FORKED: &str = "this process was forked from the one that built the client; build it in the child";

type BoxError = Box<dyn Error + Send + Sync>;

/// Opens connections, with TLS where the address says https.
type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;

/// An HTTP client for one service.
pub(crate) struct Transport {
    client: Client<Connector, Full<Bytes>>,
    /// Without a slash at the end.
    url: String,
    authorization: Option<HeaderValue>,
    deadline: Duration,
    /// The process that opened the connections. A process that was forked from it has the same sockets, and
    /// would read responses to its parent's requests.
    process: u32,
}

/// A response with all of its body.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The member of a problem (RFC 9457) that says what to do.
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

    /// Sends JSON and returns the response, unless its status is 500 or above. A status of 4xx is for the
    /// caller to judge.
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
        // Where denials have a body of the operator's own, the problem has the numbers.
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

/// Connects, and does the TLS handshake, within the deadline. A handshake that is not waited for any more goes on
/// in the background, and would do so for ever with a service that hangs.
fn connector(tls: ClientConfig, deadline: Duration) -> Connector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    // Otherwise it would reject https, which the connector around it speaks.
    tcp.enforce_http(false);
    let https =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
    let within_deadline = https.map_future(move |connecting| async move {
        let connected = timeout(deadline, connecting).await;
        connected.unwrap_or_else(|_| Err(format!("connecting took longer than {deadline:?}").into()))
    });
    BoxCloneSyncService::new(within_deadline)
}

/// The error with its causes: the outermost one says little.
fn unreachable_by(error: &(dyn Error + 'static)) -> ClientError {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    ClientError::Unreachable(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}

impl Response {
    /// The response as a rejection of the request.
    pub(crate) fn rejection(&self) -> ClientError {
        ClientError::Rejected { status: self.status.as_u16(), detail: detail_of(&self.body) }
    }
}

/// The reason that a body gives: the detail of a problem, else how the body begins.
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
