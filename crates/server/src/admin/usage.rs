//! `/admin/v1/usage`: the usage of a tenant, and its reset.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate::{Source, Usage};
use tidegate_catalog::{Descriptor, MAX_DESCRIPTOR};
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::ApiResult;
use super::body::JsonBody;
use super::guard::Caller;
use super::limits::descriptor;
use super::name::TenantName;
use super::query::Parameters;
use super::time::timestamp;
use crate::config::units::length;
use crate::problem::Problem;

const TAG: &str = "usage";
/// The longest lifetime of a link.
const MAX_LINK: Duration = Duration::from_hours(366 * 24);

/// Which limits of a tenant.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageQuery {
    /// The limits of this descriptor, in the syntax of overrides. By default those whose counters depend only on the
    /// tenant and on fixed values in the rules.
    #[param(example = "endpoint:POST /api/v1/orders", max_length = 1024)]
    descriptor: Option<String>,
}

/// The usage of a tenant.
#[derive(Serialize, ToSchema)]
pub(super) struct TenantUsage {
    tenant: String,
    /// `fleet` if the nodes share a store; `node` if this is the usage on this node alone.
    scope: &'static str,
    usage: Vec<UsageView>,
}

/// The usage of one limit.
#[derive(Serialize, ToSchema)]
pub(super) struct UsageView {
    domain: String,
    rule: String,
    /// `default` for the tenant's own rule.
    descriptor: String,
    name: String,
    used: u64,
    /// The maximum: for buckets the burst, else the requests per window.
    limit: u64,
    remaining: u64,
    window: UsageWindow,
    /// The origin of the limit: `rule`, `tier` or `override`.
    from: &'static str,
}

/// The time that is counted: for a fixed window from its start to its end; for the others one window, up to when nothing
/// is used any more if no further request is made.
#[derive(Serialize, ToSchema)]
struct UsageWindow {
    #[schema(format = DateTime)]
    start: String,
    #[schema(format = DateTime)]
    end: String,
}

/// The result of a reset.
#[derive(Serialize, ToSchema)]
pub(super) struct Reset {
    /// The number of limits that were reset.
    reset: usize,
}

/// Returns the usage of a tenant. Nothing is charged.
#[utoipa::path(
    get, path = "/usage/{tenant}", tag = TAG,
    params(("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256), UsageQuery),
    responses(
        (status = 200, description = "The usage of each limit", body = TenantUsage),
        (status = 422, description = "A parameter is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(
    State(admin): State<Admin>,
    TenantName(tenant): TenantName,
    Parameters(query): Parameters<UsageQuery>,
) -> ApiResult<Json<TenantUsage>> {
    let descriptor = query.entries()?;
    let usage = admin.limiter.usage(&tenant, descriptor.as_deref()).await;
    let shared = admin.limiter.is_shared() && usage.iter().all(|usage| usage.source == Source::Shared);
    let scope = if shared { "fleet" } else { "node" };
    let usage = usage.into_iter().map(UsageView::new).collect();
    Ok(Json(TenantUsage { tenant, scope, usage }))
}

/// Resets the usage of a tenant to zero.
#[utoipa::path(
    post, path = "/usage/{tenant}/reset", tag = TAG,
    params(("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256), UsageQuery),
    responses(
        (status = 200, description = "The usage is reset", body = Reset),
        (status = 422, description = "A parameter is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn reset(
    State(admin): State<Admin>,
    caller: Caller,
    TenantName(tenant): TenantName,
    Parameters(query): Parameters<UsageQuery>,
) -> ApiResult<Json<Reset>> {
    let entries = query.entries()?;
    let before = admin.limiter.usage(&tenant, entries.as_deref()).await;
    let used: Vec<UsageView> = before.into_iter().map(UsageView::new).collect();
    let before = serde_json::json!({ "usage": used });
    // Recorded first: a reset without an audit record must not happen.
    admin.control.note(caller.by(), "reset_usage", tenant.clone(), before).await?;
    let reset = admin.limiter.reset_usage(&tenant, entries.as_deref()).await;
    let reset = reset
        .map_err(|error| Problem::unavailable(format!("the shared store failed: {error}; try again")))?;
    Ok(Json(Reset { reset }))
}

/// How long a link works.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkPost {
    /// A duration such as `12h` or `30d`, up to 366 days.
    #[serde(rename = "for")]
    #[schema(example = "30d")]
    lifetime: String,
}

/// A link.
#[derive(Serialize, ToSchema)]
pub(super) struct UsageLink {
    /// The path, on the HTTP listener and on this one.
    url_path: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Makes a link by which the tenant sees its own limits, usage and last denials, and nothing else.
#[utoipa::path(
    post, path = "/usage/{tenant}/link", tag = TAG, request_body = LinkPost,
    params(("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256)),
    responses(
        (status = 200, description = "The link", body = UsageLink),
        (status = 422, description = "A field is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn link(
    State(admin): State<Admin>,
    caller: Caller,
    TenantName(tenant): TenantName,
    JsonBody(body): JsonBody<LinkPost>,
) -> ApiResult<Json<UsageLink>> {
    let days = body.lifetime.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let lifetime = match days {
        Some(days) => Duration::from_secs(days.saturating_mul(24 * 3600)),
        None => length(&body.lifetime, false)
            .map_err(|_| Problem::field("for", "must be a duration such as 12h or 30d"))?,
    };
    if lifetime.is_zero() || lifetime > MAX_LINK {
        return Err(Problem::field("for", "must be above 0, and at most 366d"));
    }
    let expires_at = caller.at.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
    let after = serde_json::json!({ "expires_at": expires_at });
    // Recorded first: a link without an audit record must not be made.
    admin.control.note(caller.by(), "link_usage", tenant.clone(), after).await?;
    Ok(Json(UsageLink { url_path: admin.links.path(&tenant, expires_at), expires_at }))
}

/// Returns the page of a link, which needs no token.
pub(super) async fn page(
    State(admin): State<Admin>,
    Path(link): Path<String>,
    headers: HeaderMap,
) -> Response {
    admin.links.answer(&link, &headers).await.map(Body::new)
}

/// The entries of a descriptor without the tenant's.
type Entries = Vec<(String, Option<String>)>;

impl UsageQuery {
    fn entries(&self) -> ApiResult<Option<Entries>> {
        let Some(text) = self.descriptor.as_deref() else { return Ok(None) };
        // The tenant's own rule alone.
        let text = if text == "default" { "" } else { text };
        if text.chars().count() > MAX_DESCRIPTOR {
            return Err(Problem::field(
                "descriptor",
                format!("must have at most {MAX_DESCRIPTOR} characters"),
            ));
        }
        let parsed: Descriptor =
            text.parse().map_err(|error| Problem::field("descriptor", format!("{error}")))?;
        Ok(Some(parsed.entries().iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()))
    }
}

impl UsageView {
    fn new(usage: Usage) -> Self {
        Self {
            domain: usage.domain,
            rule: usage.rule,
            descriptor: descriptor(&usage.descriptor),
            name: usage.name,
            used: usage.used,
            limit: usage.limit.burst(),
            remaining: usage.remaining,
            window: UsageWindow { start: timestamp(usage.window_start), end: timestamp(usage.window_end) },
            from: usage.from.name(),
        }
    }
}
