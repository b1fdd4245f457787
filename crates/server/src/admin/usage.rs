//! `/admin/v1/usage`: what a tenant has used, and giving it back.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate::{Source, Usage};
use tidegate_catalog::{Descriptor, MAX_DESCRIPTOR};
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::guard::Caller;
use super::limits::descriptor;
use super::name::TenantName;
use super::problem::{Answer, Problem};
use super::query::Parameters;
use super::time::shown;

const TAG: &str = "usage";

/// Which of a tenant's limits.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Those of this descriptor, as in overrides. Without it those whose counters follow from the tenant and
    /// the values that rules fix.
    #[param(example = "endpoint:POST /api/v1/orders", max_length = 1024)]
    descriptor: Option<String>,
}

/// What a tenant has used.
#[derive(Serialize, ToSchema)]
pub(super) struct TenantUsage {
    tenant: String,
    /// `fleet` where nodes share a store; `node` where this is what this node alone has seen.
    scope: &'static str,
    usage: Vec<UsageShown>,
}

/// What was used of one limit.
#[derive(Serialize, ToSchema)]
pub(super) struct UsageShown {
    domain: String,
    rule: String,
    /// `default` for the tenant's own rule.
    descriptor: String,
    name: String,
    used: u64,
    /// The most at once: for buckets the burst, else the requests per window.
    limit: u64,
    remaining: u64,
    window: UsageWindow,
    /// Where the limit comes from: `rule`, `tier` or `override`.
    from: &'static str,
}

/// The time that is counted: of a fixed window from its beginning to its end; of the others the last window's
/// length, up to when all is given back if nothing more is used.
#[derive(Serialize, ToSchema)]
struct UsageWindow {
    #[schema(format = DateTime)]
    start: String,
    #[schema(format = DateTime)]
    end: String,
}

/// What a reset did.
#[derive(Serialize, ToSchema)]
pub(super) struct Reset {
    /// How many limits are as if nothing had been used.
    reset: usize,
}

/// What a tenant has used. Looking uses nothing.
#[utoipa::path(
    get, path = "/usage/{tenant}", tag = TAG,
    params(("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256), Wanted),
    responses(
        (status = 200, description = "Each limit", body = TenantUsage),
        (status = 422, description = "A parameter makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(
    State(admin): State<Admin>,
    TenantName(tenant): TenantName,
    Parameters(wanted): Parameters<Wanted>,
) -> Answer<Json<TenantUsage>> {
    let descriptor = wanted.entries()?;
    let usage = admin.limiter.usage(&tenant, descriptor.as_deref()).await;
    let shared = admin.limiter.is_shared() && usage.iter().all(|usage| usage.source == Source::Shared);
    let scope = if shared { "fleet" } else { "node" };
    let usage = usage.into_iter().map(UsageShown::new).collect();
    Ok(Json(TenantUsage { tenant, scope, usage }))
}

/// Gives a tenant back what it has used.
#[utoipa::path(
    post, path = "/usage/{tenant}/reset", tag = TAG,
    params(("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256), Wanted),
    responses(
        (status = 200, description = "It is given back", body = Reset),
        (status = 422, description = "A parameter makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn reset(
    State(admin): State<Admin>,
    caller: Caller,
    TenantName(tenant): TenantName,
    Parameters(wanted): Parameters<Wanted>,
) -> Answer<Json<Reset>> {
    let entries = wanted.entries()?;
    let before = admin.limiter.usage(&tenant, entries.as_deref()).await;
    let used: Vec<UsageShown> = before.into_iter().map(UsageShown::new).collect();
    let before = serde_json::json!({ "usage": used });
    // First: what is not written down is not done.
    admin.control.note(caller.by(), "reset_usage", tenant.clone(), before).await?;
    let reset = admin.limiter.reset_usage(&tenant, entries.as_deref()).await;
    let reset = reset
        .map_err(|error| Problem::unavailable(format!("the shared store failed: {error}; try again")))?;
    Ok(Json(Reset { reset }))
}

/// The entries of a descriptor besides the tenant's.
type Entries = Vec<(String, Option<String>)>;

impl Wanted {
    fn entries(&self) -> Answer<Option<Entries>> {
        let Some(text) = self.descriptor.as_deref() else { return Ok(None) };
        // Of the tenant's own rule alone.
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

impl UsageShown {
    fn new(usage: Usage) -> Self {
        Self {
            domain: usage.domain,
            rule: usage.rule,
            descriptor: descriptor(&usage.descriptor),
            name: usage.name,
            used: usage.used,
            limit: usage.limit.burst(),
            remaining: usage.remaining,
            window: UsageWindow { start: shown(usage.window_start), end: shown(usage.window_end) },
            from: usage.from.name(),
        }
    }
}
