//! The HTTP front end: `/v1/check`, permits, reservations, Envoy's `/json`, health.
//!
//! | request | response |
//! | --- | --- |
//! | `POST /v1/check` | 200, or 429 for a denial; a list is a batch, always 200 |
//! | `POST /v1/refund` | 200 with what is left; a list is a batch |
//! | `POST /v1/reserve` | as a check, with the ID of a reservation |
//! | `POST /v1/settle` | 200, or 410 if the reservation does not exist any more |
//! | `POST /v1/acquire` | 200 with a permit, or 429 |
//! | `POST /v1/renew` | 200, or 404 if the permit is not held any more |
//! | `POST /v1/release` | 204, also if it is repeated |
//! | `GET /v1/forward-auth` | 200, or the status that the rules give a denial |
//! | `POST /json` | Envoy's `RateLimitRequest` as protojson: 200, or 429 |
//! | `GET /usage/LINK` | what a tenant has used, by a link that an administrator made |
//! | `GET /openapi.json` | this API as an `OpenAPI` document |
//! | `GET /healthcheck` | 200 `OK`, or 500 |
//! | `GET /readyz` | 200 or 503, with the reasons |
//!
//! An invalid request gets problem details (RFC 9457): 400 for its content, 404 and 405 for its target, 401 without a
//! valid token where one is required, 403 if a page of another site sends it, 408 if its body does not arrive in
//! time, 413 if the body is too long, 415 if its content type is not JSON, 503 if there is no memory for it. A body
//! without a content type is treated as JSON, unless a browser sends it. While no rules are loaded the status is 503,
//! because the client cannot correct that. A rejected request changes no counter.
//!
//! - `check_body`: the body of a check; `inline_limit`: limits given in it
//! - `check`, `refund`, `reservations`, `permits`, `forward_auth`, `envoy`: the routes
//! - `read`: checks headers and reads the body; `batch`: lists of requests

mod batch;
mod check;
mod check_body;
mod envoy;
pub(crate) mod forward_auth;
mod inline_limit;
mod permits;
mod read;
mod refund;
mod reservations;

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tidegate_http2::{MemoryBudget, MemoryClaim};
use tidegate_middleware::{ClientIp, Renderer};

use self::read::Forms;
use crate::access::TokenRegistry;
use crate::body::{BodyError, unsupported_coding};
use crate::bounds::Bounds;
use crate::decider::{Decider, NO_RULES};
use crate::grpc::rate_limit::RateLimit;
use crate::health::Health;
use crate::listen::connection::{Connection, HttpService};
use crate::listen::listener::{Api, Serving};
use crate::memory::{Memory, deciding_bytes};
use crate::problem::Problem;
use crate::request_id::RequestId;
use crate::usage_link::{self, UsageLinks};

/// This API as an `OpenAPI` document. A test checks that the service conforms to it.
const OPENAPI: &str = include_str!("openapi.json");

/// The body of every response.
pub type Body = Full<Bytes>;

/// The HTTP front end. Cheap to clone.
#[derive(Clone)]
pub struct HttpApi {
    /// Makes and records decisions.
    pub decider: Decider,
    /// Renders decisions as headers and bodies.
    pub renderer: Renderer,
    /// The bounds on what a client may send.
    pub bounds: Bounds,
    /// The health of the service.
    pub health: Health,
    /// Handles `/json`.
    pub rate_limit: RateLimit,
    /// The accepted tokens; `None` if requests need no token.
    pub tokens: Option<TokenRegistry>,
    /// Determines the client address of a request that came through proxies.
    pub client_ip: Arc<ClientIp>,
    /// Whether pages of other sites may send requests from a browser.
    pub cross_site: bool,
    /// Whether `/json` accepts the forms that `curl -d` sends, as envoyproxy/ratelimit does.
    pub json_forms: bool,
    /// The memory limit of the process.
    pub memory: Memory,
    /// Serves the usage links of tenants, if enabled.
    pub links: Option<UsageLinks>,
    /// The IP address of the client; 127.0.0.1 on a Unix socket.
    pub peer: IpAddr,
}

/// The routes.
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

/// Returns whether a path has a route.
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

    /// Returns the allowed methods, as the value of the `Allow` header.
    fn allow(self) -> &'static str {
        if self.reads() { "GET, HEAD" } else { "POST" }
    }

    fn allows(self, method: &Method) -> bool {
        if self.reads() { matches!(*method, Method::GET | Method::HEAD) } else { *method == Method::POST }
    }

    /// Returns whether the route takes no body.
    fn reads(self) -> bool {
        matches!(self, Self::ForwardAuth | Self::OpenApi | Self::HealthCheck | Self::Ready)
    }

    /// Returns whether the route makes a decision.
    fn decides(self) -> bool {
        matches!(self, Self::Check | Self::Reserve | Self::Acquire | Self::ForwardAuth | Self::Json)
    }

    /// Returns whether the route needs rules. `/json` reports missing rules itself, as envoyproxy/ratelimit does.
    fn needs_rules(self) -> bool {
        matches!(self, Self::Check | Self::Refund | Self::Reserve | Self::Acquire)
    }
}

impl HttpApi {
    /// Handles a request. Must run in a tokio runtime with time enabled, which the timeout of a body needs.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        self.route(request).await.unwrap_or_else(Problem::response)
    }

    async fn route<B>(&self, request: Request<B>) -> Result<Response<Body>, Problem>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        let (head, body) = request.into_parts();
        if let Some(links) = &self.links
            && let Some(link) = head.uri.path().strip_prefix(usage_link::PATH)
            && matches!(head.method, Method::GET | Method::HEAD)
        {
            return Ok(links.answer(link, &head.headers).await);
        }
        let route = Route::of(head.uri.path()).ok_or_else(|| no_such_path(head.uri.path()))?;
        if !route.allows(&head.method) {
            let detail = format!("the method must be {}, got {}", route.allow(), head.method);
            let allow = HeaderValue::from_static(route.allow());
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).with(ALLOW, allow));
        }
        match route {
            Route::Ready => {
                let (status, detail) = self.health.readyz();
                return Ok(response(status, "application/json", detail.to_string()));
            }
            Route::HealthCheck => {
                let (status, text) = self.health.healthcheck();
                return Ok(response(status, "text/plain", text));
            }
            Route::OpenApi => return Ok(response(StatusCode::OK, "application/json", OPENAPI)),
            _ => self.expect_token(route, &head.headers)?,
        }
        let answered = match route {
            Route::ForwardAuth => self.forward_auth(&head).await,
            // A client that accepts problem details gets them instead of the body in the settings.
            _ if self.renderer.has_denial_body() && read::accepts_problems(&head.headers) => {
                let renderer = self.renderer.clone().denial_body(None);
                Self { renderer, ..self.clone() }.decide_on(route, &head.headers, body).await
            }
            _ => self.decide_on(route, &head.headers, body).await,
        };
        answered.inspect_err(|_| {
            if route.decides() {
                self.decider.count_refused(1);
            }
        })
    }

    /// Rejects a request without a valid token, if one is required.
    fn expect_token(&self, route: Route, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        // There, `Authorization` belongs to the client of the proxy.
        let who = match route {
            Route::ForwardAuth => tokens.authenticate_token(forward_auth::token(headers)),
            _ => tokens.authenticate(headers),
        };
        who.map(drop).map_err(Problem::from)
    }

    fn forms(&self, route: Route) -> Forms {
        match route {
            Route::Json if self.json_forms => Forms::Accepted,
            Route::Json => Forms::Refused,
            _ => Forms::Never,
        }
    }

    /// Claims memory for a request that waits for a store. With the embedded store no request waits.
    fn expect_room(&self, body_bytes: usize) -> Result<Option<MemoryClaim>, Problem> {
        if !self.decider.limiter().is_shared() {
            return Ok(None);
        }
        match self.memory.deciding().take(deciding_bytes(body_bytes)) {
            None => Err(Problem::busy(StatusCode::SERVICE_UNAVAILABLE, BodyError::NoRoom.to_string())),
            claim => Ok(claim),
        }
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
            read::expect_json(headers, self.forms(route))?;
        }
        if let Some(refusal) = unsupported_coding(headers) {
            return Err(Problem::coded(refusal));
        }
        if route == Route::Reserve && self.memory.is_full() {
            let detail = "the service is near its bound on memory (memory.max_bytes); try again";
            return Err(Problem::busy(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        let message = read::body(body, &self.bounds, self.memory.bodies()).await?;
        let _deciding = self.expect_room(message.len())?;
        if route.needs_rules() && !self.decider.limiter().has_rules() {
            return Err(no_rules());
        }
        let id = RequestId::of(headers);
        match route {
            Route::Check => self.check(&message, id).await,
            Route::Refund => self.refund(&message).await,
            Route::Reserve => self.reserve(&message, id).await,
            Route::Settle => self.settle(&message).await,
            Route::Acquire => self.acquire(&message, id).await,
            Route::Renew => self.renew(&message).await,
            Route::Release => self.release(&message).await,
            _ => self.json(&message, id).await,
        }
    }
}

impl HttpService for HttpApi {
    type Body = Body;

    fn budget(&self) -> &MemoryBudget {
        self.memory.bodies()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.answer(request).await
    }
}

impl Api for HttpApi {
    fn serve<'c>(&'c self, connection: Connection<'c>) -> Serving<'c> {
        let api = Self { peer: connection.peer, ..self.clone() };
        Box::pin(async move { connection.serve_http(&api).await })
    }
}

fn no_such_path(path: &str) -> Problem {
    Problem::not_found(format!(
        "there is no {path}; available: POST /v1/check, /v1/refund, /v1/reserve, /v1/settle, /v1/acquire, /v1/renew, \
         /v1/release, /json; GET /v1/forward-auth, /openapi.json, /healthcheck, /readyz"
    ))
}

fn no_rules() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, NO_RULES)
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
