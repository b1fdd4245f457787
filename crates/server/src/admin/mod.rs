//! The admin front end: metrics, the rules in force, and the control plane.
//!
//! Everything under `/admin/v1` needs a token; what scrapers, probes and the tools of envoyproxy/ratelimit read does not.
//!
//! - [`guard`][]: roles, and requests at once; [`browser`][]: protection from pages of other sites
//! - [`name`][], [`body`][], [`query`][], [`page`][], [`precondition`][]: the parts of requests
//! - [`quotas`][], [`usage`][], [`rules`][], [`switches`][], [`tokens`][], [`audit`][], [`explain`][]: the routes of the control plane
//! - [`session`][], [`overview`][], [`history`][], [`live`][], [`activity`][], [`dry_run`][], [`top`][], [`denials`][],
//!   [`why`][], [`events`][], [`settings`][]: the routes of the dashboard; [`dashboard`][]: its files
//! - [`openapi`][]: their documentation, for tools and as a page
//! - [`stats`][]: `/rlconfig` and `/stats` in the format of envoyproxy/ratelimit

#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod activity;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod audit;
mod body;
pub mod browser;
mod dashboard;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod denials;
mod dry_run;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod events;
mod explain;
mod guard;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod history;
mod limits;
mod live;
mod name;
mod openapi;
mod overview;
mod page;
mod precondition;
mod query;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod quotas;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod rules;
mod session;
mod settings;
mod stats;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod switches;
mod time;
mod tokens;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod top;
#[expect(unused_qualifications, reason = "utoipa's macros write paths in full")]
mod usage;
mod why;

use std::ops::Deref;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, Request, StatusCode, header};
use hyper::body::Incoming;
use tidegate::Limiter;
use tidegate_http2::MemoryBudget;
use tidegate_middleware::{ClientIp, Renderer};
use tower_service::Service as _;

use self::browser::AllowedHosts;
pub(crate) use self::denials::DenialView;
use self::guard::Gate;
pub use self::guard::Load;
pub(crate) use self::page::PageQuery;
use self::session::Sessions;
pub(crate) use self::time::timestamp;
use crate::bounds::Bounds;
use crate::config::Settings;
use crate::control::Control;
use crate::decider::Decider;
use crate::health::Health;
use crate::listen::connection::{Connection, HttpService};
use crate::listen::listener::{Api, Serving};
use crate::memory::Memory;
use crate::metrics::{self, Format, Metrics};
use crate::problem::Problem;
use crate::recorder::Recorder;
use crate::usage_link::UsageLinks;

/// The result of a route.
type ApiResult<T = Response> = Result<T, Problem>;

/// The longest body: a rule file of the maximum size.
const MAX_BODY_BYTES: usize = tidegate::rules::file::MAX_FILE_BYTES;

/// The admin API. Cheap to clone.
#[derive(Clone)]
pub struct AdminApi {
    router: Router,
    hosts: AllowedHosts,
    bodies: MemoryBudget,
    /// Counts what waits to be sent. It has no bound: probes and metrics are answered whatever else goes on.
    responses: MemoryBudget,
}

/// The bounds on requests to the admin listener.
pub struct Limits {
    /// The host names whose requests are answered.
    pub hosts: AllowedHosts,
    /// Requests in progress at once.
    pub load: Load,
    /// Bytes of bodies that are being read.
    pub bodies: MemoryBudget,
}

/// The state of the routes.
#[derive(Clone)]
struct Admin(Arc<AdminState>);

struct AdminState {
    parts: AdminParts,
    bounds: Bounds,
    client_ip: ClientIp,
    sessions: Sessions,
    /// The most counters in memory.
    max_keys: usize,
    /// Whether the listener has TLS, so that cookies are sent over it only.
    tls: bool,
}

/// The parts that the admin API reads and changes.
pub struct AdminParts {
    /// The limiter.
    pub limiter: Limiter,
    /// The metrics.
    pub metrics: Metrics,
    /// The health of the service.
    pub health: Health,
    /// The control plane.
    pub control: Control,
    /// What was recorded of decisions.
    pub recorder: Recorder,
    /// Makes and answers the links of tenants.
    pub links: UsageLinks,
    /// The memory of the process.
    pub memory: Memory,
    /// The settings in force.
    pub settings: Settings,
    /// The name of this node.
    pub node: String,
    /// Decides the requests that administrators send to try something.
    pub decider: Decider,
    /// Renders those decisions as `POST /v1/check` does.
    pub renderer: Renderer,
}

impl Deref for Admin {
    type Target = AdminState;

    fn deref(&self) -> &AdminState {
        &self.0
    }
}

impl Deref for AdminState {
    type Target = AdminParts;

    fn deref(&self) -> &AdminParts {
        &self.parts
    }
}

const INDEX: &str = "tidegate admin

GET  /docs              the admin API on a page
GET  /openapi.json      the admin API for tools
GET  /metrics           metrics for Prometheus
GET  /rlconfig          the rules in force, one line per limit
GET  /stats             counts in the format of envoyproxy/ratelimit
GET  /healthcheck       OK, or 500
GET  /readyz            whether this node is ready, and why not
     /admin/v1/…        everything else; needs a token
";

impl AdminApi {
    /// Returns the API of a limiter and a control plane.
    pub fn new(parts: AdminParts, limits: Limits) -> Self {
        let sessions = Sessions::default();
        let (registry, load) = (parts.control.registry().clone(), limits.load);
        let (admin, document) = openapi::routes(&Gate { registry, sessions: sessions.clone(), load });
        let settings = &parts.settings;
        let state = AdminState {
            bounds: settings.bounds,
            client_ip: settings.http.client_ip.clone(),
            sessions,
            max_keys: settings.memory.max_keys.min(parts.memory.max_keys()),
            tls: settings.admin.tls.is_some(),
            parts,
        };
        let state = Admin(Arc::new(state));
        let router = Router::new()
            .route("/", get(dashboard::index))
            .route("/assets/{*path}", get(dashboard::asset))
            .route("/usage/{link}", get(usage::page))
            .route("/metrics", get(metrics_text))
            .route("/rlconfig", get(stats::rlconfig))
            .route("/stats", get(stats::stats))
            .route("/healthcheck", get(healthcheck))
            .route("/readyz", get(readyz))
            .merge(admin)
            .merge(openapi::page(document))
            .fallback(async || Problem::not_found("there is no such page; GET / lists the pages"))
            .method_not_allowed_fallback(async || {
                Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "the page does not allow this method; see /openapi.json",
                )
            })
            .with_state(state);
        Self { router, hosts: limits.hosts, bodies: limits.bodies, responses: MemoryBudget::unlimited() }
    }

    /// Handles one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response {
        let path = request.uri().path().to_owned();
        let mut response = match self.hosts.check(&request) {
            Err(problem) => problem.into_response(),
            Ok(()) => self.route(request.map(Body::new)).await,
        };
        browser::protect(&path, response.headers_mut());
        response
    }

    async fn route(&self, mut request: Request<Body>) -> Response {
        let mut router = self.router.clone();
        request.extensions_mut().insert(self.bodies.clone());
        match router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

impl HttpService for AdminApi {
    type Body = Body;

    fn budget(&self) -> &MemoryBudget {
        &self.responses
    }

    async fn answer(&self, request: Request<Incoming>) -> Response {
        self.answer(request).await
    }
}

impl Api for AdminApi {
    fn serve<'c>(&'c self, connection: Connection<'c>) -> Serving<'c> {
        Box::pin(connection.serve_http(self))
    }
}

/// Returns the metrics in the format that the client accepts; in that of Prometheus by default.
async fn metrics_text(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    let asked = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let open = asked.into_iter().any(|value| value.contains("application/openmetrics-text"));
    let format = if open { Format::OpenMetrics } else { Format::Prometheus };
    let dropped = admin.control.trail().map(|trail| trail.dropped().total()).unwrap_or_default();
    match metrics::export(&admin.limiter, &admin.metrics, &admin.health, &admin.recorder, dropped, format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthcheck(State(admin): State<Admin>) -> (StatusCode, &'static str) {
    admin.health.healthcheck()
}

async fn readyz(State(admin): State<Admin>) -> (StatusCode, Json<serde_json::Value>) {
    let (status, detail) = admin.health.readyz();
    (status, Json(detail))
}
