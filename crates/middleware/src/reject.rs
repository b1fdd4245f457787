//! The response to a denied request.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;
use tidegate::{Decision, Request};

use crate::names;
use crate::request_head::RequestHead;
use crate::settings::Settings;

/// The gRPC status code `RESOURCE_EXHAUSTED`.
const RESOURCE_EXHAUSTED: HeaderValue = HeaderValue::from_static("8");

/// The characters that are escaped in gRPC messages.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// `Retry-After` in seconds of a request that was denied without evaluating any limit.
const UNSEEN_RETRY_S: u64 = 1;

/// A denied request, passed to [`crate::RateLimitLayer::on_reject`].
#[derive(Debug)]
pub struct Rejection<'a> {
    /// The head of the request.
    pub head: RequestHead<'a>,
    /// The decision that denied the request.
    pub decision: &'a Decision,
    /// The default response to the denial.
    pub response: Response<Bytes>,
}

/// Returns the response to a denial: as the service rendered it if a service decided, otherwise rendered the same way
/// here.
pub(crate) fn response(settings: &Settings, request: &Request<'_>, decision: &Decision) -> Response<Bytes> {
    if let Some(rendered) = decision.rendered().filter(|_| !decision.allowed()) {
        let status = StatusCode::from_u16(rendered.status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let body = Bytes::copy_from_slice(rendered.body.as_bytes());
        let mut response = new(status, &rendered.content_type, body);
        response.headers_mut().extend(settings.headers(request, decision));
        return response;
    }
    if decision.allowed() || decision.decided_by().is_none() {
        return unseen(decision);
    }
    let mut body = Vec::new();
    settings.renderer.body(request, decision, &mut body);
    let renderer = &settings.renderer;
    let mut response = new(renderer.status(decision), renderer.content_type(decision), body.into());
    response.headers_mut().extend(settings.headers(request, decision));
    response
}

/// Returns the response to a denial that was made without evaluating any limit, because the store or service did not
/// respond.
fn unseen(decision: &Decision) -> Response<Bytes> {
    let body = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "nobody can tell what is left of the limits right now; retry in 1 second",
        "violated-policies": [],
        "retry_after": UNSEEN_RETRY_S,
        "limit": null,
        "window": null,
        "scope": null,
        "allowed": false,
        "decided_by": null,
        "source": if decision.allowed() { "deny" } else { decision.source().name() },
        "limits": [],
    });
    let mut response =
        new(StatusCode::TOO_MANY_REQUESTS, "application/problem+json", body.to_string().into());
    response.headers_mut().insert(&names::RETRY_AFTER, UNSEEN_RETRY_S.into());
    response
}

/// Converts a response for a gRPC client: headers only, which end the call.
pub(crate) fn as_grpc(response: Response<Bytes>) -> Response<Bytes> {
    let problem = serde_json::from_slice::<Value>(response.body()).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("too many requests");
    let message = utf8_percent_encode(detail, ESCAPED).to_string();
    let (mut head, _) = response.into_parts();
    head.status = StatusCode::OK;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(HeaderName::from_static("grpc-status"), RESOURCE_EXHAUSTED);
    if let Ok(message) = HeaderValue::from_str(&message) {
        head.headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    Response::from_parts(head, Bytes::new())
}

fn new(status: StatusCode, content_type: &str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}
