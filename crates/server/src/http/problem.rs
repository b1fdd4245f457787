//! Refusals, as problems (RFC 9457).

use std::borrow::Cow;

use http::header::{ACCEPT_ENCODING, ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, Response, StatusCode};

use super::{Body, response};
use crate::access::book::Unknown;
use crate::bounds::Refusal;
use crate::permit_token::TokenError;

const PATHS: &str = "POST /v1/check, /v1/refund, /v1/reserve, /v1/settle, /v1/acquire, /v1/renew, /v1/release, /json; GET /v1/forward-auth, /openapi.json, /healthcheck, /readyz";

/// Why a request is not answered.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    detail: Cow<'static, str>,
    /// The methods there are, where the request's is not among them.
    allow: Option<&'static str>,
    /// How to say who one is, where that is missing.
    challenge: Option<&'static str>,
    /// The content codings there are, where the body has another.
    accept: Option<&'static str>,
    /// Whether it may be sent again in a second.
    retry: bool,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into(), allow: None, challenge: None, accept: None, retry: false }
    }

    pub(super) fn bad(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn no_such_path(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {path}; there are {PATHS}"))
    }

    pub(super) fn no_such_method(method: &Method, allow: &'static str) -> Self {
        let detail = format!("the method must be {allow}, got {method}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// The body is compressed, or coded in another way.
    pub(super) fn coded(detail: String) -> Self {
        Self { accept: Some("identity"), ..Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail) }
    }

    pub(super) fn unknown(unknown: Unknown) -> Self {
        let challenge = Some(unknown.challenge());
        Self { challenge, ..Self::new(StatusCode::UNAUTHORIZED, unknown.reason()) }
    }

    /// There is no memory for it now.
    pub(super) fn no_memory() -> Self {
        let detail = "the service is near the memory that it may use (memory.max_bytes); try again";
        Self { retry: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// Bodies hold all the memory that there is for them.
    pub(super) fn no_room(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { retry: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    pub(super) fn no_rules() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no rate limit configuration loaded")
    }

    /// The same, with where in the request it is.
    pub(super) fn at(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail).into();
        self
    }

    /// Appends its JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let title = self.status.canonical_reason().unwrap_or_default();
        let body = serde_json::json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let written = serde_json::to_writer(out, &body);
        debug_assert!(written.is_ok(), "a value is always JSON");
    }

    pub(super) fn response(&self) -> Response<Body> {
        let mut body = Vec::with_capacity(256);
        self.write(&mut body);
        let mut response = response(self.status, "application/problem+json", body);
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(codings) = self.accept {
            response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(codings));
        }
        if self.retry {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::bad(refusal.to_string())
    }
}

/// The message says what is wrong, and at which line and column.
impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::bad(error.to_string())
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        Self::bad(error.to_string())
    }
}
