//! `/admin/v1/denials`: the last denials of each rule.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::history::wants;
use super::query::Parameters;
use super::time::timestamp;
use super::top::{hiding_rules, limit};
use super::{Admin, ApiResult};
use crate::recorder::{RecordedDenial, fingerprint};

/// The most denials in a list.
const MAX_LIMIT: usize = 1_000;
const DEFAULT_LIMIT: usize = 100;

/// Which denials.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DenialsQuery {
    /// Of this domain only.
    domain: Option<String>,
    /// Of this rule only.
    rule: Option<String>,
    /// Of this tenant only.
    tenant: Option<String>,
    /// Of the key with this fingerprint only.
    fingerprint: Option<String>,
    /// Of requests with this `x-request-id` only.
    request_id: Option<String>,
    /// The maximum number of denials; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The last denials, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct DenialList {
    denials: Vec<DenialView>,
}

/// A denial.
#[derive(Serialize, ToSchema)]
pub(crate) struct DenialView {
    /// For `POST /admin/v1/why`, as long as the denial is kept.
    id: String,
    #[schema(format = DateTime)]
    at: String,
    domain: String,
    rule: String,
    /// The name of the limit.
    limit: String,
    /// The numbers of the limit.
    limit_text: String,
    /// The entries that lead to the rule; null if the rule hides its keys.
    key: Option<String>,
    fingerprint: String,
    cost: u64,
    /// Who decided, as in the response: `memory`, `redis` or `fallback`.
    source: &'static str,
    /// Null if the request will never pass.
    retry_after_ms: Option<u64>,
    /// The `x-request-id` of the request, if it had one; its first 128 bytes.
    request_id: Option<String>,
    /// Whether the rule is in shadow, so that the request passed.
    shadow: bool,
    /// `grpc` or `http`.
    front_end: &'static str,
}

impl DenialView {
    /// Returns a denial, with its key unless `hide`.
    pub(crate) fn new(denial: &RecordedDenial, hide: bool) -> Self {
        let retry = denial.retry_after.filter(|retry| *retry != Duration::MAX);
        Self {
            id: denial.number.to_string(),
            at: timestamp(denial.at),
            domain: denial.domain.to_string(),
            rule: denial.rule.to_string(),
            limit: denial.limit.to_string(),
            limit_text: denial.limit_text.to_string(),
            key: denial.text.as_deref().filter(|_| !hide).map(str::to_owned),
            fingerprint: fingerprint(denial.key),
            cost: denial.cost,
            source: denial.source.name(),
            retry_after_ms: retry.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX)),
            request_id: denial.request_id.as_deref().map(str::to_owned),
            shadow: denial.shadow,
            front_end: denial.front_end,
        }
    }
}

/// Lists the last denials of each rule, newest first. Beyond 400 denials per second and thread they are a sample.
#[utoipa::path(
    get, path = "/denials", tag = "keys", params(DenialsQuery),
    responses((status = 200, description = "The denials", body = DenialList))
)]
pub(super) async fn denials(
    State(admin): State<Admin>,
    Parameters(query): Parameters<DenialsQuery>,
) -> ApiResult<Json<DenialList>> {
    let limit = limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let keep = wants(query.domain.as_deref(), query.rule.as_deref());
    let of_key = |denial: &RecordedDenial| {
        query.fingerprint.as_ref().is_none_or(|wanted| *wanted == fingerprint(denial.key))
            && query.request_id.as_ref().is_none_or(|wanted| denial.request_id.as_deref() == Some(wanted))
            && query.tenant.as_ref().is_none_or(|wanted| denial.tenant.as_deref() == Some(wanted))
    };
    let found = admin.recorder.denials(limit, |denial| keep(&denial.domain, &denial.rule) && of_key(denial));
    let hiding = hiding_rules(&admin.limiter);
    let view = |denial: &RecordedDenial| DenialView::new(denial, hiding.has(&denial.domain, &denial.rule));
    Ok(Json(DenialList { denials: found.iter().map(view).collect() }))
}
