//! `/admin/v1/quotas`: tenants, their tiers and overrides.
//!
//! - [`shape`][]: what they look like over HTTP

mod shape;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_catalog::{Tenant, TenantDraft, TenantFilter};
use utoipa::{IntoParams, ToSchema};

use self::shape::{Quota, QuotaItem, QuotaPut};
use super::Admin;
use super::body::JsonBody;
use super::guard::Caller;
use super::limits;
use super::name::TenantName;
use super::page::PageQuery;
use super::precondition::{etag, precondition};
use super::problem::{Answer, FieldError, Problem};
use super::query::Parameters;
use crate::control::engine_override;

const TAG: &str = "quotas";

/// Which tenants to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Those of a tier.
    #[param(max_length = 256)]
    tier: Option<String>,
    /// Those whose names begin so.
    #[param(max_length = 256)]
    q: Option<String>,
    /// Where the page before said that the next begins.
    cursor: Option<String>,
    /// How many at most; 100 where absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of tenants.
#[derive(Serialize, ToSchema)]
pub(super) struct QuotaList {
    items: Vec<QuotaItem>,
    /// Where the next page begins, if there is one.
    next_cursor: Option<String>,
}

/// Sets a tenant's tier and overrides, whole.
#[utoipa::path(
    put, path = "/quotas/{tenant}", tag = TAG,
    params(
        ("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "The ETag that the tenant must still have"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is no such tenant yet"),
    ),
    request_body = QuotaPut,
    responses(
        (status = 200, description = "As it is now", body = Quota),
        (status = 412, description = "Somebody else was first", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(admin): State<Admin>,
    caller: Caller,
    TenantName(tenant): TenantName,
    headers: HeaderMap,
    JsonBody(put): JsonBody<QuotaPut>,
) -> Answer {
    let precondition = precondition(&headers)?;
    let keys = tenant_keys(&admin);
    let draft = put.draft(|domain, text| {
        let mut keys = keys.iter().filter(|(name, _)| domain.is_none_or(|domain| domain == name));
        keys.any(|(_, key)| text == key || text.strip_prefix(&**key) == Some(&format!(":{tenant}")))
    })?;
    draft.check().map_err(renamed)?;
    check_against_rules(&admin, &tenant, &draft)?;
    let stored = admin.control.put_tenant(caller.by(), tenant, draft, precondition).await.map_err(renamed)?;
    Ok(shown(&admin, &stored))
}

/// A tenant with its limits.
#[utoipa::path(
    get, path = "/quotas/{tenant}", tag = TAG,
    params(("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256)),
    responses(
        (status = 200, description = "The tenant", body = Quota),
        (status = 404, description = "No such tenant", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(State(admin): State<Admin>, TenantName(tenant): TenantName) -> Answer {
    Ok(shown(&admin, &admin.control.tenant(&tenant).await?))
}

/// Forgets a tenant: the rules' own limits hold for it again. Its counters stay.
#[utoipa::path(
    delete, path = "/quotas/{tenant}", tag = TAG,
    params(
        ("tenant" = String, Path, description = "The tenant's name, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "The ETag that the tenant must still have"),
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "No such tenant", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "Somebody else was first", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    TenantName(tenant): TenantName,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    admin.control.delete_tenant(caller.by(), tenant, precondition(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tenants in the order of their names.
#[utoipa::path(
    get, path = "/quotas", tag = TAG, params(Wanted),
    responses(
        (status = 200, description = "A page of them", body = QuotaList),
        (status = 422, description = "A parameter makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(admin): State<Admin>,
    Parameters(wanted): Parameters<Wanted>,
) -> Answer<Json<QuotaList>> {
    let filter = TenantFilter { tier: wanted.tier, prefix: wanted.q.filter(|text| !text.is_empty()) };
    let page = PageQuery::new(wanted.cursor, wanted.limit)?;
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

/// Domains and the entries that name their tenants.
fn tenant_keys(admin: &Admin) -> Vec<(String, String)> {
    let domains = admin.limiter.listing().into_iter();
    domains.filter_map(|domain| Some((domain.domain, domain.tenant?))).collect()
}

/// The catalog's fields by the names that this API has for them.
fn renamed(error: tidegate_catalog::Error) -> Problem {
    match error {
        tidegate_catalog::Error::Invalid { field, reason } => {
            let field = match field.rsplit_once('.') {
                Some((place, "requests")) => format!("{place}.requests_per_unit"),
                Some((place, "duration_us")) => format!("{place}.duration"),
                _ => field,
            };
            Problem::field(field, reason.replace("duration_us", "duration"))
        }
        other => other.into(),
    }
}

/// A tier that no rule has, and an override that no rule can take, are mistakes.
fn check_against_rules(admin: &Admin, tenant: &str, draft: &TenantDraft) -> Answer<()> {
    let mut errors = Vec::new();
    if let Some(tier) = &draft.tier {
        let mut known: Vec<String> = limits::tiers(&admin.limiter);
        known.sort_unstable();
        if known.binary_search(tier).is_err() {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let reason = format!(
                "no rule has a tier {tier:?}; there are: {known}. Add it to the `tiers` of a rule (`{{}}` if it \
                 changes nothing), or leave the tier out"
            );
            errors.push(FieldError { field: "tier".to_owned(), reason });
        }
    }
    let stored = draft.overrides().map_err(renamed)?;
    let whose = tidegate::Tenant { name: tenant.to_owned(), tier: draft.tier.clone(), overrides: Vec::new() };
    for (index, stored) in stored.iter().enumerate() {
        if let Err(problem) = admin.limiter.check_override(&whose, &engine_override(stored)) {
            let field = match problem.field {
                "requests" => "requests_per_unit",
                "per" | "window" => "unit",
                other => other,
            };
            errors.push(FieldError { field: format!("overrides[{index}].{field}"), reason: problem.reason });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::fields(errors)) }
}
