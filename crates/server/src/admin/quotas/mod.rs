//! `/admin/v1/quotas`: tenants, their tiers and overrides.
//!
//! - [`shape`][]: their JSON

mod shape;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate::{LimitField, OverrideField};
use tidegate_catalog::{Tenant, TenantDraft, TenantFilter};
use utoipa::{IntoParams, ToSchema};

use self::shape::{Quota, QuotaItem, QuotaPut};
use super::Admin;
use super::ApiResult;
use super::body::JsonBody;
use super::guard::Caller;
use super::limits;
use super::name::TenantName;
use super::page::PageQuery;
use super::precondition::{etag, precondition};
use super::query::Parameters;
use crate::control::engine_override;
use crate::problem::{FieldError, Problem};

const TAG: &str = "quotas";

/// Which tenants to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct QuotaQuery {
    /// Tenants of this tier.
    #[param(max_length = 256)]
    tier: Option<String>,
    /// Tenants whose names begin with this text.
    #[param(max_length = 256)]
    q: Option<String>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// The maximum number of items; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of tenants.
#[derive(Serialize, ToSchema)]
pub(super) struct QuotaList {
    items: Vec<QuotaItem>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// Replaces the tier and all overrides of a tenant.
#[utoipa::path(
    put, path = "/quotas/{tenant}", tag = TAG,
    params(
        ("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "Change it only if the tenant still has this ETag"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if the tenant does not exist yet"),
    ),
    request_body = QuotaPut,
    responses(
        (status = 200, description = "The tenant after the change", body = Quota),
        (status = 412, description = "It was changed in the meantime", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(admin): State<Admin>,
    caller: Caller,
    TenantName(tenant): TenantName,
    headers: HeaderMap,
    JsonBody(put): JsonBody<QuotaPut>,
) -> ApiResult {
    let precondition = precondition(&headers)?;
    let keys = tenant_keys(&admin);
    let draft = put.draft(|domain, text| {
        let mut keys = keys.iter().filter(|(name, _)| domain.is_none_or(|domain| domain == name));
        keys.any(|(_, key)| text == key || text.strip_prefix(&**key) == Some(&format!(":{tenant}")))
    })?;
    draft.check()?;
    check_against_rules(&admin, &tenant, &draft)?;
    let stored = admin.control.put_tenant(caller.by(), tenant, draft, precondition).await?;
    Ok(shown(&admin, &stored))
}

/// Returns a tenant with its limits.
#[utoipa::path(
    get, path = "/quotas/{tenant}", tag = TAG,
    params(("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256)),
    responses(
        (status = 200, description = "The tenant", body = Quota),
        (status = 404, description = "No such tenant", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(State(admin): State<Admin>, TenantName(tenant): TenantName) -> ApiResult {
    Ok(shown(&admin, &admin.control.tenant(&tenant).await?))
}

/// Deletes the tier and overrides of a tenant: the limits of the rules apply to it again. Its counters stay.
#[utoipa::path(
    delete, path = "/quotas/{tenant}", tag = TAG,
    params(
        ("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "Change it only if the tenant still has this ETag"),
    ),
    responses(
        (status = 204, description = "The tenant is deleted"),
        (status = 404, description = "No such tenant", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "It was changed in the meantime", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    TenantName(tenant): TenantName,
    headers: HeaderMap,
) -> ApiResult<StatusCode> {
    admin.control.delete_tenant(caller.by(), tenant, precondition(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists tenants, sorted by name.
#[utoipa::path(
    get, path = "/quotas", tag = TAG, params(QuotaQuery),
    responses(
        (status = 200, description = "A page of tenants", body = QuotaList),
        (status = 422, description = "A parameter is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(admin): State<Admin>,
    Parameters(query): Parameters<QuotaQuery>,
) -> ApiResult<Json<QuotaList>> {
    let filter = TenantFilter { tier: query.tier, prefix: query.q.filter(|text| !text.is_empty()) };
    let page = PageQuery::new(query.cursor, query.limit)?;
    let found = admin.control.tenants_page(&filter, &page).await?;
    let now = admin.control.now();
    let items = found.items.iter().map(|tenant| QuotaItem::new(tenant, now)).collect();
    Ok(Json(QuotaList { items, next_cursor: found.next }))
}

fn shown(admin: &Admin, tenant: &Tenant) -> Response {
    let limits = limits::of_tenant(&admin.limiter, &tenant.name);
    let quota = Quota::new(tenant, limits, admin.control.now());
    (etag(tenant.revision), Json(quota)).into_response()
}

/// Returns the domains with tenants, each with the key of the entry that names the tenant.
fn tenant_keys(admin: &Admin) -> Vec<(String, String)> {
    let domains = admin.limiter.listing().into_iter();
    domains.filter_map(|domain| Some((domain.domain, domain.tenant?))).collect()
}

/// Rejects a tier that no rule defines, and an override that no rule can apply.
fn check_against_rules(admin: &Admin, tenant: &str, draft: &TenantDraft) -> ApiResult<()> {
    let mut errors = Vec::new();
    if let Some(tier) = &draft.tier {
        let known = limits::tiers(&admin.limiter);
        if known.binary_search(tier).is_err() {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let reason = format!(
                "no rule has a tier {tier:?}; known tiers: {known}. Add it to the `tiers` of a rule (`{{}}` if it \
                 changes nothing), or leave the tier out"
            );
            errors.push(FieldError::new("tier", reason));
        }
    }
    let stored = draft.overrides()?;
    let whose = tidegate::Tenant { name: tenant.to_owned(), tier: draft.tier.clone(), overrides: Vec::new() };
    for (index, stored) in stored.iter().enumerate() {
        if let Err(problem) = admin.limiter.check_override(&whose, &engine_override(stored)) {
            // As this API names it.
            let field = match problem.field {
                OverrideField::Number(LimitField::Requests) => "requests_per_unit".to_owned(),
                OverrideField::Number(LimitField::Window) => "unit".to_owned(),
                other => other.to_string(),
            };
            errors.push(FieldError::new(format!("overrides[{index}].{field}"), problem.reason));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::fields(errors)) }
}
