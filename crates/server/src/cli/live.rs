//! Asking a running node: one POST of JSON over HTTP/1.1.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// From connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(10);

const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Posts JSON and answers with the body.
///
/// # Errors
/// What went wrong and what to look at, for people; what the node said if it refused.
pub(super) fn post(url: &str, body: &serde_json::Value) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let answer = async { timeout(TIMEOUT, ask(url, body)).await };
    runtime.block_on(answer).unwrap_or_else(|_| Err(format!("{url} did not answer within {TIMEOUT:?}")))
}

async fn ask(url: &str, body: &serde_json::Value) -> Result<Vec<u8>, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url} is not an address: {error}"))?;
    let Some(authority) = uri.authority().filter(|_| uri.scheme_str() == Some("http")) else {
        return Err(format!("must be an http:// address such as http://127.0.0.1:6070, got {url}"));
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(80);
    let unreachable = |error: &dyn std::fmt::Display| {
        format!("cannot reach {authority}: {error}; is the node running, and is this its admin address?")
    };
    let stream = TcpStream::connect((host, port)).await.map_err(|error| unreachable(&error))?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| unreachable(&error))?;
    let connection = tokio::spawn(connection);
    let request = Request::post(uri.path())
        .header(HOST, authority.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| format!("the answer of {url} broke off: {error}"))?.to_bytes();
    connection.abort();
    if status.is_success() {
        return Ok(body.into());
    }
    Err(format!("{url} answered {status}: {}", String::from_utf8_lossy(&body).trim()))
}
