//! Admits requests whose token has the role that the route needs, with a limit on concurrent requests.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use tidegate_catalog::{By, Role};

use super::session::{CurrentSession, Sessions};
use crate::access::{Secret, TokenHolder, TokenRegistry};
use crate::problem::Problem;

/// The ID of a request, in logs and the audit trail.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID: usize = 128;

/// The caller of a request.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) holder: TokenHolder,
    pub(super) request_id: String,
    /// When the request arrived, by the catalog's clock.
    pub(super) at: Timestamp,
    /// The session, if the request has a cookie and no token.
    pub(super) session: Option<CurrentSession>,
}

impl Caller {
    /// Returns the caller for an audit entry of the catalog.
    pub(super) fn by(&self) -> By {
        By::new(&self.holder.name, &self.request_id, self.at)
    }
}

/// Available on every route behind [`guard`].
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::new(StatusCode::FORBIDDEN, "the route has no guard"))
    }
}

/// Limits requests in progress, so that one token does not block the others, and all of them together leave connections
/// for probes and scrapers. Clones share their state.
#[derive(Clone, Debug)]
pub struct Load {
    per_token: usize,
    all: usize,
    /// Requests in progress by the name of their token. Tokens without any are absent.
    in_progress: Arc<Mutex<HashMap<String, usize>>>,
}

/// One request in progress.
struct InProgress<'a> {
    load: &'a Load,
    token: String,
}

impl Load {
    /// Returns a limit on the requests of one token, and of all tokens together.
    pub fn new(per_token: usize, all: usize) -> Self {
        Self { per_token, all, in_progress: Arc::default() }
    }

    fn begin(&self, token: &str) -> Result<InProgress<'_>, Problem> {
        let mut in_progress = self.in_progress.lock();
        let of_token = in_progress.get(token).copied().unwrap_or(0);
        if of_token >= self.per_token {
            let most = self.per_token;
            let detail =
                format!("the token {token:?} has {most} requests in progress; wait until one has ended");
            return Err(Problem::busy(StatusCode::TOO_MANY_REQUESTS, detail));
        }
        if in_progress.values().sum::<usize>() >= self.all {
            let detail = "too many requests of all tokens are in progress; try again";
            return Err(Problem::busy(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        in_progress.insert(token.to_owned(), of_token + 1);
        Ok(InProgress { load: self, token: token.to_owned() })
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        let mut in_progress = self.load.in_progress.lock();
        match in_progress.get_mut(&self.token) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(in_progress.remove(&self.token)),
        }
    }
}

/// The state that a guard needs.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) registry: TokenRegistry,
    pub(super) sessions: Sessions,
    pub(super) load: Load,
}

/// Admits requests whose token or session has the role, or a higher one.
pub(super) async fn guard(
    State((Gate { registry, sessions, load }, needed)): State<(Gate, Role)>,
    mut request: Request,
    next: Next,
) -> Response {
    let request_id = request_id(request.headers());
    let authenticated = sessions.authenticate(&registry, request.method(), request.headers());
    let mut response = match authenticated {
        Err(problem) => problem.into_response(),
        Ok((holder, _)) if !holder.role.may(needed) => {
            let detail = format!(
                "this needs the role {}; the token {:?} has {}",
                needed.name(),
                holder.name,
                holder.role.name()
            );
            Problem::new(StatusCode::FORBIDDEN, detail).into_response()
        }
        Ok((holder, session)) => match load.begin(&holder.name) {
            Err(problem) => problem.into_response(),
            Ok(_under_way) => {
                let (request_id, at) = (request_id.clone(), registry.clock().now());
                request.extensions_mut().insert(Caller { holder, request_id, at, session });
                next.run(request).await
            }
        },
    };
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Returns the ID that the caller sent, if it is printable, or a random one.
fn request_id(headers: &HeaderMap) -> String {
    let fit = |text: &&str| {
        (1..=MAX_REQUEST_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(fit);
    given.map_or_else(
        || Secret::generate().map_or_else(|_| "unknown".to_owned(), |random| random.id().to_owned()),
        str::to_owned,
    )
}
