//! The admin listener: metrics, the rules in force, and why a request is decided as it is.
//!
//! - [`stats`][]: `/rlconfig` and `/stats` as envoyproxy/ratelimit writes them
//! - [`explain`][]: `/admin/v1/explain`
//! - [`switches`][]: `/admin/v1/switches`

mod explain;
mod stats;
mod switches;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http::{HeaderMap, Request, StatusCode, header};
use hyper::body::Incoming;
use tidegate::Limiter;
use tower_service::Service as _;

use crate::bounds::Bounds;
use crate::health::Health;
use crate::metrics::{self, Format, Metrics};

/// Answers administrators. Cheap to clone.
#[derive(Clone)]
pub struct AdminApi(Router);

/// What the routes need.
#[derive(Clone)]
struct Admin {
    limiter: Limiter,
    metrics: Metrics,
    health: Health,
    bounds: Bounds,
}

const INDEX: &str = "tidegate admin

GET  /metrics           for Prometheus
GET  /rlconfig          the rules in force, one line per limit
GET  /stats             counts as envoyproxy/ratelimit has them
GET  /admin/v1/rules    the rules in force as JSON
POST /admin/v1/explain  why a request is decided as it is
GET  /admin/v1/switches which rules are switched to shadow or off
PUT  /admin/v1/switches        mode enforce, shadow or off, for all rules
PUT  /admin/v1/switches/RULE   the same for one
GET  /healthcheck       OK, or 500
GET  /readyz            whether this node is ready, and why not
";

impl AdminApi {
    /// The API over a limiter.
    pub fn new(limiter: Limiter, metrics: Metrics, health: Health, bounds: Bounds) -> Self {
        let state = Admin { limiter, metrics, health, bounds };
        let router = Router::new()
            .route("/", get(INDEX))
            .route("/metrics", get(metrics_text))
            .route("/rlconfig", get(stats::rlconfig))
            .route("/stats", get(stats::stats))
            .route("/admin/v1/rules", get(rules))
            .route("/admin/v1/explain", post(explain::explain))
            .route("/admin/v1/switches", get(switches::list).put(switches::set_all))
            .route("/admin/v1/switches/{*rule}", put(switches::set_rule))
            .route("/healthcheck", get(healthcheck))
            .route("/readyz", get(readyz))
            .fallback(async || (StatusCode::NOT_FOUND, "there is no such page; GET / lists what there is\n"))
            .layer(axum::extract::DefaultBodyLimit::max(bounds.message_bytes))
            .with_state(state);
        Self(router)
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response {
        let mut router = self.0.clone();
        match router.call(request.map(Body::new)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// In the format that the other side asks for; Prometheus' own where it does not.
async fn metrics_text(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    let asked = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let open = asked.into_iter().any(|value| value.contains("application/openmetrics-text"));
    let format = if open { Format::OpenMetrics } else { Format::Prometheus };
    match metrics::export(&admin.limiter, &admin.metrics, &admin.health, format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn rules(State(admin): State<Admin>) -> Response {
    axum::Json(admin.limiter.listing()).into_response()
}

async fn healthcheck(State(admin): State<Admin>) -> Response {
    if admin.health.is_ready() {
        "OK".into_response()
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "not ready; GET /readyz says why").into_response()
    }
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let status = if admin.health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(admin.health.detail())).into_response()
}
