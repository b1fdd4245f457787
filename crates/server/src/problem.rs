//! Errors of the HTTP and admin APIs, as problem details (RFC 9457).

use std::fmt;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use tidegate::Problems;
use tidegate_catalog::Error as CatalogError;
use utoipa::ToSchema;

use crate::access::registry::AuthError;
use crate::body::BodyError;
use crate::bounds::Refusal;
use crate::permit_token::TokenError;

/// Seconds after which a client may retry while the catalog is unreachable.
const RETRY_SECONDS: u64 = 2;

/// Why a request is refused.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: the status is the kind of the problem.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status of the response.
    status: u16,
    /// What is wrong, and what to do.
    detail: String,
    /// The invalid fields, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    #[serde(skip)]
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// An invalid field.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// The path of the field, such as `overrides[1].expires_at`; empty if a text as a whole is wrong.
    field: String,
    /// The line of the mistake in a text of rules, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// The column of the mistake in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    /// What is wrong with it, and what is allowed.
    reason: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), ..Self::default() }
    }

    /// Converts the mistakes in rules.
    pub(crate) fn of_rules(problems: &Problems) -> Vec<Self> {
        let one = |problem: &tidegate::Problem| Self {
            line: problem.place.map(|place| place.line),
            column: problem.place.map(|place| place.column),
            ..Self::new(&problem.field, &problem.message)
        };
        problems.0.iter().map(one).collect()
    }
}

/// Prints `2:28 descriptors[0]: reason`.
impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}{}", if self.field.is_empty() { "" } else { " " })?;
        }
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        let (errors, headers) = (Vec::new(), Vec::new());
        Self { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), errors, headers }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// A field is invalid.
    pub(crate) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::fields(vec![FieldError::new(field, reason)])
    }

    /// Fields are invalid; there is at least one.
    pub(crate) fn fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] => one.to_string(),
            several => format!("{} fields are invalid; see errors", several.len()),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// The catalog or the store is unreachable.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).with(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
    }

    /// The body has a content coding, such as compression.
    pub(crate) fn coded(detail: String) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
            .with(ACCEPT_ENCODING, HeaderValue::from_static("identity"))
    }

    /// Too many requests are in progress, or there is no memory.
    pub(crate) fn busy(status: StatusCode, detail: impl Into<String>) -> Self {
        Self::new(status, detail).with(RETRY_AFTER, HeaderValue::from(1))
    }

    /// Returns the problem of a body that could not be read. `too_long` returns the detail for a body above the given
    /// limit.
    pub(crate) fn of_body(error: &BodyError, too_long: impl FnOnce(usize) -> String) -> Self {
        let detail = error.to_string();
        match error {
            BodyError::TooLong { found } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, too_long(*found)),
            BodyError::Late => Self::new(StatusCode::REQUEST_TIMEOUT, detail),
            BodyError::Broken(_) => Self::bad(detail),
            BodyError::NoRoom => Self::busy(StatusCode::SERVICE_UNAVAILABLE, detail),
        }
    }

    /// Adds a header to the response.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Puts a place in the request before the detail.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Adds the problem as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let written = serde_json::to_writer(out, self);
        debug_assert!(written.is_ok(), "a problem is always JSON");
    }

    pub(crate) fn response(self) -> Response<Full<Bytes>> {
        let mut body = Vec::with_capacity(256);
        self.write(&mut body);
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().extend([(CONTENT_TYPE, json)].into_iter().chain(self.headers));
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.response().map(axum::body::Body::new)
    }
}

/// The token is missing or not valid.
impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, error.reason())
            .with(WWW_AUTHENTICATE, HeaderValue::from_static(error.challenge()))
    }
}

impl From<CatalogError> for Problem {
    fn from(error: CatalogError) -> Self {
        let text = error.to_string();
        match error {
            CatalogError::Invalid { field, reason } => Self::field(field, reason),
            CatalogError::NotFound { .. } => Self::not_found(text),
            CatalogError::Precondition { .. } => Self::new(StatusCode::PRECONDITION_FAILED, text),
            CatalogError::Unavailable(_) | CatalogError::Disturbed(_) | CatalogError::Uncertain { .. } => {
                Self::unavailable(text)
            }
            CatalogError::Other(_) => {
                tracing::error!(error = text, "the catalog failed");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }
}

/// Mistakes in rules, each with its line and column.
impl From<Problems> for Problem {
    fn from(problems: Problems) -> Self {
        Self::fields(FieldError::of_rules(&problems))
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::bad(refusal.to_string())
    }
}

/// The message has the mistake, and its line and column.
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
