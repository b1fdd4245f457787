//! `/admin/v1/events`: warnings before the limit.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::query::Parameters;
use super::time::timestamp;
use super::top::{HidingRules, hiding_rules, limit};
use super::{Admin, ApiResult};
use crate::problem::Problem;
use crate::recorder::{Warning, fingerprint};

const TAG: &str = "events";
/// The most events in a list.
const MAX_LIMIT: usize = 500;
const DEFAULT_LIMIT: usize = 100;

/// How many events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// The maximum number of events; 100 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// The last events of this node, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct EventList {
    events: Vec<EventView>,
    /// Null if there is no webhook.
    webhook: Option<WebhookView>,
}

/// A key that has used so many percent of a limit.
#[derive(Serialize, ToSchema)]
struct EventView {
    id: String,
    #[schema(format = DateTime)]
    at: String,
    /// `warning`, or `test` for one that somebody sent to try the webhook.
    kind: &'static str,
    domain: String,
    rule: String,
    limit: String,
    /// The entries that lead to the rule; null if the rule hides its keys.
    key: Option<String>,
    fingerprint: String,
    percent: u8,
    used: u64,
    of: u64,
    #[schema(format = DateTime)]
    window_ends: String,
    node: String,
    /// `queued`, `sent`, `failed`, `dropped` or `off`.
    delivery: &'static str,
}

/// The webhook, and what became of the events.
#[derive(Serialize, ToSchema)]
struct WebhookView {
    url_host: String,
    queued: u64,
    sent: u64,
    failed: u64,
    dropped: u64,
}

/// An event that was queued.
#[derive(Serialize, ToSchema)]
pub(super) struct Queued {
    id: String,
}

/// Lists the last warnings of this node, newest first.
#[utoipa::path(
    get, path = "/events", tag = TAG, params(EventsQuery),
    responses((status = 200, description = "The events", body = EventList))
)]
pub(super) async fn list(
    State(admin): State<Admin>,
    Parameters(query): Parameters<EventsQuery>,
) -> ApiResult<Json<EventList>> {
    let limit = limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let hiding = hiding_rules(&admin.limiter);
    let warnings = admin.recorder.warnings(limit);
    let counts = admin.recorder.warning_counts();
    let webhook = admin.recorder.webhook_host().map(|url_host| WebhookView {
        url_host,
        queued: counts.queued,
        sent: counts.sent,
        failed: counts.failed,
        dropped: counts.dropped,
    });
    let events = warnings.iter().map(|warning| EventView::new(warning, &admin, &hiding)).collect();
    Ok(Json(EventList { events, webhook }))
}

/// Sends a test event to the webhook.
#[utoipa::path(
    post, path = "/events/test", tag = TAG,
    responses(
        (status = 202, description = "The event is queued", body = Queued),
        (status = 409, description = "There is no webhook", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn test(State(admin): State<Admin>) -> ApiResult<Response> {
    if admin.recorder.webhook_host().is_none() {
        let detail = "there is no webhook; set warnings.webhook and warnings.secret";
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let id = admin.recorder.test_warning().to_string();
    Ok((StatusCode::ACCEPTED, Json(Queued { id })).into_response())
}

impl EventView {
    fn new(warning: &Warning, admin: &Admin, hiding: &HidingRules) -> Self {
        let hide = hiding.has(&warning.domain, &warning.rule);
        Self {
            id: warning.number.to_string(),
            at: timestamp(warning.at),
            kind: if warning.test { "test" } else { "warning" },
            domain: warning.domain.to_string(),
            rule: warning.rule.to_string(),
            limit: warning.limit.to_string(),
            key: warning.text.as_deref().filter(|_| !hide).map(str::to_owned),
            fingerprint: fingerprint(warning.key),
            percent: warning.percent,
            used: warning.used,
            of: warning.of,
            window_ends: timestamp(warning.window_ends),
            node: admin.node.clone(),
            delivery: warning.delivery.name(),
        }
    }
}
