//! Refusals of the admin API, as problems (RFC 9457) that name the fields at fault.

use axum::response::{AppendHeaders, IntoResponse, Response};
use http::StatusCode;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;
use tidegate::Problems;
use tidegate_catalog::Error as CatalogError;
use utoipa::ToSchema;

use crate::access::book::Unknown;

/// Seconds after which an unavailable catalog may be asked again.
const RETRY_SECONDS: u64 = 2;

/// Why a request was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: the status says what kind it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What is wrong and what to do about it.
    detail: String,
    /// The fields at fault, if it is about fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    #[serde(skip)]
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// One field that is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FieldError {
    /// Where it is: `overrides[1].expires_at`; for rules, line and column and the path within.
    pub(super) field: String,
    /// What is wrong with it, and what is allowed.
    pub(super) reason: String,
}

pub(super) type Answer<T = Response> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        let (errors, headers) = (Vec::new(), Vec::new());
        Self { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), errors, headers }
    }

    pub(super) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// A field that makes no sense.
    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::fields(vec![FieldError { field: field.into(), reason: reason.into() }])
    }

    /// Fields that make no sense; there is at least one.
    pub(super) fn fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] => format!("{}: {}", one.field, one.reason),
            several => format!("{} fields are wrong; see errors", several.len()),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// What is needed is away for now.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        problem.headers.push((RETRY_AFTER, HeaderValue::from(RETRY_SECONDS)));
        problem
    }

    /// The body is compressed, or coded in another way.
    pub(super) fn coded(detail: String) -> Self {
        let mut problem = Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
        problem.headers.push((ACCEPT_ENCODING, HeaderValue::from_static("identity")));
        problem
    }

    /// There is too much under way.
    pub(super) fn busy(status: StatusCode, detail: impl Into<String>) -> Self {
        let mut problem = Self::new(status, detail);
        problem.headers.push((RETRY_AFTER, HeaderValue::from(1)));
        problem
    }

    /// Nobody known asks.
    pub(super) fn unauthorized(unknown: Unknown) -> Self {
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, unknown.reason());
        problem.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static(unknown.challenge())));
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let headers = std::mem::take(&mut self.headers);
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let json = HeaderValue::from_static("application/problem+json");
        (status, [(CONTENT_TYPE, json)], AppendHeaders(headers), body).into_response()
    }
}

impl From<CatalogError> for Problem {
    fn from(error: CatalogError) -> Self {
        let text = error.to_string();
        match error {
            CatalogError::Invalid { field, reason } => Self::field(field, reason),
            CatalogError::NotFound { .. } => Self::not_found(text),
            CatalogError::Precondition { .. } => Self::new(StatusCode::PRECONDITION_FAILED, text),
            CatalogError::Unavailable(_) | CatalogError::Uncertain { .. } => Self::unavailable(text),
            CatalogError::Other(_) => {
                tracing::error!(error = text, "the catalog failed");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }
}

/// Mistakes in rules, each at its place.
impl From<Problems> for Problem {
    fn from(problems: Problems) -> Self {
        Self::fields(field_errors(&problems))
    }
}

pub(super) fn field_errors(problems: &Problems) -> Vec<FieldError> {
    let one = |problem: &tidegate::Problem| {
        let place = problem.place.map(|place| format!("{}:{} ", place.line, place.column));
        let field = format!("{}{}", place.unwrap_or_default(), problem.field);
        FieldError { field: field.trim_end().to_owned(), reason: problem.message.clone() }
    };
    problems.0.iter().map(one).collect()
}
