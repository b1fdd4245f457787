//! One exchange over HTTP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::time::timeout;

use super::RemoteError;
use super::connect::Connector;

/// An answer longer than this is none: a thousand decisions are about 500 KiB.
const LONGEST_ANSWER: usize = 16 << 20;

/// Connections that wait for the next request.
const IDLE_CONNECTIONS: usize = 8;

const IDLE_TIME: Duration = Duration::from_mins(1);

const FORKED: &str = "this process was forked from the one that built the limiter; build it in the child";

/// A client that keeps its connections.
pub(super) struct Http {
    client: Client<Connector, Full<Bytes>>,
    /// Without a slash at the end.
    url: String,
    authorization: Option<HeaderValue>,
    deadline: Duration,
    /// The process whose connections these are. One that was forked from it has the same sockets, and would
    /// read responses to requests of the other.
    process: u32,
}

/// What came back.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The part of a problem (RFC 9457) that says what to do.
#[derive(Deserialize)]
struct Problem {
    detail: Option<String>,
}

impl Http {
    pub(super) fn new(
        url: String,
        tls: Option<Arc<ClientConfig>>,
        authorization: Option<HeaderValue>,
        deadline: Duration,
    ) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(Connector::new(tls, deadline));
        Self { client, url, authorization, deadline, process: std::process::id() }
    }

    /// Sends JSON and waits for an answer that is none of the service's failures. 4xx are for the caller
    /// to judge.
    pub(super) async fn post(&self, path: &str, body: Vec<u8>) -> Result<Reply, RemoteError> {
        if self.process != std::process::id() {
            return Err(RemoteError::Unreachable(FORKED.to_owned()));
        }
        let reply = timeout(self.deadline, self.exchange(path, body)).await;
        let reply = reply.unwrap_or(Err(RemoteError::TooLate(self.deadline)))?;
        if reply.status.is_server_error() {
            return Err(RemoteError::Unwell { status: reply.status.as_u16(), detail: reply.detail() });
        }
        Ok(reply)
    }

    async fn exchange(&self, path: &str, body: Vec<u8>) -> Result<Reply, RemoteError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        let uri = format!("{}{path}", self.url);
        *request.uri_mut() =
            uri.parse().map_err(|error| RemoteError::Unreachable(format!("{uri}: {error}")))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Where denials have a body of the operator's, the problem has the numbers.
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, application/problem+json"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let response = self.client.request(request).await.map_err(|error| unreachable_by(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| RemoteError::Unreachable(error.to_string()))?.to_bytes();
        Ok(Reply { status: head.status, headers: head.headers, body })
    }
}

/// The error with its causes: the outermost says little.
fn unreachable_by(error: &(dyn std::error::Error + 'static)) -> RemoteError {
    let causes = std::iter::successors(Some(error), |error| error.source());
    RemoteError::Unreachable(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}

impl Reply {
    /// What a problem says to do.
    pub(super) fn detail(&self) -> String {
        detail_of(&self.body)
    }

    pub(super) fn refused(&self) -> RemoteError {
        RemoteError::Refused { status: self.status.as_u16(), detail: self.detail() }
    }
}

pub(super) fn detail_of(body: &[u8]) -> String {
    let problem = serde_json::from_slice::<Problem>(body).ok();
    let detail = problem.and_then(|problem| problem.detail);
    detail.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_was_forked_does_not_use_its_parents_connections() {
        let http = Http::new("http://127.0.0.1:9".to_owned(), None, None, Duration::from_secs(1));
        let forked = Http { process: std::process::id().wrapping_add(1), ..http };
        let refused = forked.post("/v1/check", Vec::new()).await.err();
        assert_eq!(refused, Some(RemoteError::Unreachable(FORKED.to_owned())));
    }
}
