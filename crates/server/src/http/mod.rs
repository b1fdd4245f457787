//! The HTTP API: `/v1/check`, permits, Envoy's `/json`, health.
//!
//! | request | answers |
//! | --- | --- |
//! | `POST /v1/check` | 200, or 429 for a denial; a list is a batch, always 200 |
//! | `POST /v1/refund` | 200 with what is left; a list is a batch |
//! | `POST /v1/reserve` | as a check, with the name of a reservation |
//! | `POST /v1/settle` | 200, or 410 if there is no such reservation any more |
//! | `POST /v1/acquire` | 200 with a permit, or 429 |
//! | `POST /v1/renew` | 200, or 404 if the permit is not held any more |
//! | `POST /v1/release` | 204, however often |
//! | `GET /v1/forward-auth` | 200, or the status that the rules give a denial |
//! | `POST /json` | Envoy's `RateLimitRequest` as protojson: 200, or 429 |
//! | `GET /openapi.json` | the API as a document, for tools |
//! | `GET /healthcheck` | 200 `OK`, or 500 |
//! | `GET /readyz` | 200 or 503, with the reasons |
//!
//! What is wrong with a request is a problem (RFC 9457): 400 for its content, 404 and 405 for its
//! target, 401 without a token where one is needed, 403 if a page of another site sends it, 408 if its body does
//! not come, 413 if it is too long, 415 if it says that it is not JSON, 503 if there is no memory for it.
//! A body without a content type is taken for JSON, unless a browser sends it. Where no rules are loaded at all the answer is 503:
//! that is nothing the client can mend. A request that is refused changes no counter.
//!
//! - `asked`: a request as JSON, and what may be wrong with it; `limits`: limits it brings along
//! - `check`, `refund`, `reservations`, `permits`, `forward_auth`, `envoy`, `state`: the routes
//! - `read`: the body; `batch`: lists; `problem`: refusals

mod asked;
mod batch;
mod check;
mod envoy;
mod forward_auth;
mod limits;
mod permits;
mod problem;
mod read;
mod refund;
mod reservations;
mod state;

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use tidegate::Limiter;
use tidegate_middleware::{ClientIp, Renderer};

use self::problem::Problem;
pub(crate) use self::reservations::GONE;
use crate::access::Book;
use crate::body::coded;
use crate::bounds::Bounds;
use crate::grpc::rate_limit::RateLimit;
use crate::health::Health;
use crate::memory::Memory;
use crate::metrics::Metrics;

/// This API as an `OpenAPI` document. A test holds the service to it.
const OPENAPI: &str = include_str!("openapi.json");

/// The body of every answer.
pub type Body = Full<Bytes>;

/// Answers HTTP requests. Cheap to clone.
#[derive(Clone)]
pub struct HttpApi {
    /// Decides.
    pub limiter: Limiter,
    /// Makes headers and bodies of decisions.
    pub renderer: Renderer,
    /// What a client may send.
    pub bounds: Bounds,
    /// Counts and times requests.
    pub metrics: Metrics,
    /// Whether the service is ready.
    pub health: Health,
    /// Answers `/json`: `RateLimit::answer` takes a `RateLimitRequest`'s bytes and adds the response's.
    pub rate_limit: RateLimit,
    /// The tokens of which one is needed, if one is.
    pub tokens: Option<Book>,
    /// How to tell who asked a proxy.
    pub client_ip: Arc<ClientIp>,
    /// Whether pages of other sites may post here from their visitors' browsers.
    pub cross_site: bool,
    /// Whether there is memory for more.
    pub memory: Memory,
    /// Who is at the other end of the connection. Whoever comes by a Unix socket is on this machine.
    pub peer: IpAddr,
}

/// What there is to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Check,
    Refund,
    Reserve,
    Settle,
    Acquire,
    Renew,
    Release,
    ForwardAuth,
    Json,
    OpenApi,
    HealthCheck,
    Ready,
}

/// Whether there is something at a path.
pub(crate) fn is_known(path: &str) -> bool {
    Route::of(path).is_some()
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/check" => Self::Check,
            "/v1/refund" => Self::Refund,
            "/v1/reserve" => Self::Reserve,
            "/v1/settle" => Self::Settle,
            "/v1/acquire" => Self::Acquire,
            "/v1/renew" => Self::Renew,
            "/v1/release" => Self::Release,
            "/v1/forward-auth" => Self::ForwardAuth,
            "/json" => Self::Json,
            "/openapi.json" => Self::OpenApi,
            "/healthcheck" => Self::HealthCheck,
            "/readyz" => Self::Ready,
            _ => return None,
        })
    }

    /// The methods it knows, as `Allow` has them.
    fn allow(self) -> &'static str {
        if self.reads() { "GET, HEAD" } else { "POST" }
    }

    fn allows(self, method: &Method) -> bool {
        if self.reads() { matches!(*method, Method::GET | Method::HEAD) } else { *method == Method::POST }
    }

    /// Whether it only tells something and takes no body.
    fn reads(self) -> bool {
        matches!(self, Self::ForwardAuth | Self::OpenApi | Self::HealthCheck | Self::Ready)
    }
}

impl HttpApi {
    /// Answers a request. Needs a tokio runtime with time enabled, for bodies that do not come.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        self.route(request).await.unwrap_or_else(|problem| problem.response())
    }

    async fn route<B>(&self, request: Request<B>) -> Result<Response<Body>, Problem>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        let (head, body) = request.into_parts();
        let route = Route::of(head.uri.path()).ok_or_else(|| Problem::no_such_path(head.uri.path()))?;
        if !route.allows(&head.method) {
            return Err(Problem::no_such_method(&head.method, route.allow()));
        }
        match route {
            Route::Ready => return Ok(self.readyz()),
            Route::HealthCheck => return Ok(self.healthcheck()),
            Route::OpenApi => return Ok(response(StatusCode::OK, "application/json", OPENAPI)),
            _ => self.expect_token(route, &head.headers)?,
        }
        let answered = match route {
            Route::ForwardAuth => self.forward_auth(&head).await,
            // Programs find in a problem what a body of one's own may not tell.
            _ if self.renderer.has_denial_body() && read::accepts_problems(&head.headers) => {
                let renderer = self.renderer.clone().denial_body(None);
                Self { renderer, ..self.clone() }.decide_on(route, &head.headers, body).await
            }
            _ => self.decide_on(route, &head.headers, body).await,
        };
        // What has no say over a request is no refusal of one.
        if answered.is_err()
            && matches!(
                route,
                Route::Check | Route::Reserve | Route::Acquire | Route::ForwardAuth | Route::Json
            )
        {
            self.metrics.refused.add(1);
        }
        answered
    }

    /// Refuses whoever has no token, where one is needed.
    fn expect_token(&self, route: Route, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        // There the client's own `Authorization` comes along.
        let who = match route {
            Route::ForwardAuth => tokens.whose(forward_auth::token(headers)),
            _ => tokens.who(headers),
        };
        who.map(drop).map_err(Problem::unknown)
    }

    async fn decide_on<B>(
        &self,
        route: Route,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Response<Body>, Problem>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        if !self.cross_site {
            read::expect_own_site(headers)?;
            read::expect_json(headers, route == Route::Json)?;
        }
        if let Some(refusal) = coded(headers) {
            return Err(Problem::coded(refusal));
        }
        if route == Route::Reserve && self.memory.is_full() {
            return Err(Problem::no_memory());
        }
        let message = read::body(body, &self.bounds, self.memory.bodies()).await?;
        match route {
            Route::Check => self.check(&message).await,
            Route::Refund => self.refund(&message).await,
            Route::Reserve => self.reserve(&message).await,
            Route::Settle => self.settle(&message).await,
            Route::Acquire => self.acquire(&message).await,
            Route::Renew => self.renew(&message).await,
            Route::Release => self.release(&message).await,
            _ => self.json(&message).await,
        }
    }
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
