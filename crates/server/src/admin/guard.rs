//! Nobody gets to a route without the role it needs, nor to more of them at once than leaves room for others.

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

use super::problem::Problem;
use crate::access::{Book, Secret, Who};

/// Names a request, in logs and the audit trail.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID: usize = 128;

/// Who asks, and how the request is called.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) who: Who,
    pub(super) request_id: String,
    /// When the request came, by the catalog's clock.
    pub(super) at: Timestamp,
}

impl Caller {
    /// As the catalog writes it down.
    pub(super) fn by(&self) -> By {
        By::new(&self.who.name, &self.request_id, self.at)
    }
}

/// Behind [`guard`] there always is one.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::new(StatusCode::FORBIDDEN, "nobody was asked who they are"))
    }
}

/// Requests that may be under way at once, so that one token's do not keep out the others', and all tokens'
/// together leave connections for probes and scrapers. Cheap to clone: all clones are the same.
#[derive(Clone, Debug)]
pub struct Load {
    per_token: usize,
    all: usize,
    /// By the token's name. Names without requests are not there.
    under_way: Arc<Mutex<HashMap<String, usize>>>,
}

/// One request under way.
struct UnderWay<'a> {
    load: &'a Load,
    token: String,
}

impl Load {
    /// At most so many requests of one token, and of all tokens together.
    pub fn new(per_token: usize, all: usize) -> Self {
        Self { per_token, all, under_way: Arc::default() }
    }

    fn begin(&self, token: &str) -> Result<UnderWay<'_>, Problem> {
        let mut under_way = self.under_way.lock();
        let of_token = under_way.get(token).copied().unwrap_or(0);
        if of_token >= self.per_token {
            let most = self.per_token;
            let detail =
                format!("the token {token:?} has {most} requests under way; wait until one has ended");
            return Err(Problem::busy(StatusCode::TOO_MANY_REQUESTS, detail));
        }
        if under_way.values().sum::<usize>() >= self.all {
            let detail = "as many requests of all tokens are under way as may be; try again";
            return Err(Problem::busy(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        under_way.insert(token.to_owned(), of_token + 1);
        Ok(UnderWay { load: self, token: token.to_owned() })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.load.under_way.lock();
        match under_way.get_mut(&self.token) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(under_way.remove(&self.token)),
        }
    }
}

/// Lets those pass whose token has the role, or one that may do more.
pub(super) async fn guard(
    State((book, load, needed)): State<(Book, Load, Role)>,
    mut request: Request,
    next: Next,
) -> Response {
    let request_id = request_id(request.headers());
    let mut response = match book.who(request.headers()) {
        Err(unknown) => Problem::unauthorized(unknown).into_response(),
        Ok(who) if !who.role.may(needed) => {
            let detail = format!(
                "this needs the role {}; the token {:?} has {}",
                needed.name(),
                who.name,
                who.role.name()
            );
            Problem::new(StatusCode::FORBIDDEN, detail).into_response()
        }
        Ok(who) => match load.begin(&who.name) {
            Err(problem) => problem.into_response(),
            Ok(_under_way) => {
                let (request_id, at) = (request_id.clone(), book.clock().now());
                request.extensions_mut().insert(Caller { who, request_id, at });
                next.run(request).await
            }
        },
    };
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The one the caller gave, if it is fit to be written down, or one of ours.
fn request_id(headers: &HeaderMap) -> String {
    let fit = |text: &&str| {
        (1..=MAX_REQUEST_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(fit);
    given.map_or_else(
        || Secret::generate().map_or_else(|_| "unnamed".to_owned(), |random| random.id().to_owned()),
        str::to_owned,
    )
}
