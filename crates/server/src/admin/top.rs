//! `/admin/v1/top`: the keys with the most decisions.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate::Limiter;
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::ApiResult;
use super::history::wants;
use super::query::Parameters;
use crate::problem::Problem;
use crate::recorder::{By, FleetKey, Span};

/// The most keys in a list.
const MAX_LIMIT: usize = 500;
const DEFAULT_LIMIT: usize = 50;

/// Which keys.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TopQuery {
    /// By decisions that were `denied`, or by all decisions: the most `active` keys.
    #[serde(default)]
    #[param(inline)]
    by: By,
    /// The time over which is counted.
    #[serde(default)]
    #[param(inline)]
    window: Span,
    /// Of this domain only.
    domain: Option<String>,
    /// Of this rule only.
    rule: Option<String>,
    /// The maximum number of keys; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `node` for the keys of this node alone; `fleet`, the default, for those of all nodes that share the store.
    #[serde(default)]
    #[param(inline)]
    scope: Scope,
}

/// Whose decisions are counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Scope {
    Node,
    #[default]
    Fleet,
}

/// The keys with the most decisions, in descending order.
#[derive(Serialize, ToSchema)]
pub(super) struct TopList {
    by: By,
    window: Span,
    /// `fleet` if the lists of all nodes are merged; `node` if this is the list of one.
    scope: Scope,
    /// The share of all decisions that a count may be too low by, besides the error of sampling.
    error_share: f64,
    keys: Vec<KeyView>,
}

/// A key.
#[derive(Serialize, ToSchema)]
struct KeyView {
    domain: String,
    rule: String,
    /// The entries that lead to the rule; null if the rule hides its keys.
    key: Option<String>,
    hidden: bool,
    fingerprint: String,
    tenant: Option<String>,
    count: u64,
    /// How far the count may be off, in 19 of 20 cases.
    error: u64,
    #[schema(format = DateTime)]
    last: String,
}

/// Lists the keys with the most decisions. Counts are estimates; each states its error.
#[utoipa::path(
    get, path = "/top", tag = "keys", params(TopQuery),
    responses((status = 200, description = "The keys", body = TopList))
)]
pub(super) async fn top(
    State(admin): State<Admin>,
    Parameters(query): Parameters<TopQuery>,
) -> ApiResult<Json<TopList>> {
    let limit = limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT)?;
    let keep = wants(query.domain.as_deref(), query.rule.as_deref());
    let fleet = query.scope == Scope::Fleet;
    let (keys, merged, error_share) = admin.recorder.top(query.by, query.window, limit, fleet, keep).await;
    let hiding = hiding_rules(&admin.limiter);
    let keys = keys.into_iter().map(|key| KeyView::new(key, &hiding)).collect();
    let scope = if merged { Scope::Fleet } else { Scope::Node };
    Ok(Json(TopList { by: query.by, window: query.window, scope, error_share, keys }))
}

impl KeyView {
    fn new(key: FleetKey, hiding: &HidingRules) -> Self {
        let FleetKey { domain, rule, fingerprint, text, tenant, count, error, last } = key;
        let hidden = text.is_none() || hiding.has(&domain, &rule);
        Self {
            key: text.filter(|_| !hidden),
            tenant: tenant.filter(|_| !hidden),
            last: super::time::timestamp(last),
            domain,
            rule,
            hidden,
            fingerprint,
            count,
            error,
        }
    }
}

/// The rules in force that hide their keys. What was recorded before a rule began to is hidden as well.
pub(super) struct HidingRules(HashSet<(String, String)>);

impl HidingRules {
    pub(super) fn has(&self, domain: &str, rule: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&(domain.to_owned(), rule.to_owned()))
    }
}

pub(super) fn hiding_rules(limiter: &Limiter) -> HidingRules {
    let domains = limiter.listing().into_iter();
    let rules = domains.flat_map(|domain| {
        let hiding = domain.rules.into_iter().filter(|rule| rule.hide_keys);
        hiding.map(move |rule| (domain.domain.clone(), rule.rule)).collect::<Vec<_>>()
    });
    HidingRules(rules.collect())
}

/// Returns the limit of a list, if it is within bounds.
pub(super) fn limit(given: Option<usize>, default: usize, most: usize) -> ApiResult<usize> {
    let limit = given.unwrap_or(default);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::field("limit", format!("must be from 1 to {most}, got {limit}")))
}
