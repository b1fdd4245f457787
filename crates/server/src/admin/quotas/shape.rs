//! The JSON of quotas.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate::rules::file::micros;
use tidegate_catalog::{Allowance, Override, OverrideDraft, Tenant, TenantDraft, Window};
use utoipa::ToSchema;

use super::super::ApiResult;
use super::super::limits::LimitView;
use crate::problem::Problem;

/// The descriptor of a tenant's own rule.
const DEFAULT: &str = "default";

/// The tier and all overrides of a tenant. They replace the previous ones.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct QuotaPut {
    /// A tier that the rules define; without it, the limits of the rules apply.
    #[serde(default)]
    #[schema(example = "enterprise", max_length = 256)]
    tier: Option<String>,
    /// Limits that apply to this tenant instead of those of the rules.
    #[serde(default)]
    #[schema(max_items = 100)]
    overrides: Vec<OverridePut>,
    /// The start of overrides that have none of their own.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    effective_at: Option<Timestamp>,
    /// The end of overrides that have none of their own.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// An override: requests per unit or duration, or unlimited.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OverridePut {
    /// The domain that it applies to; every domain by default.
    #[serde(default)]
    #[schema(max_length = 256)]
    domain: Option<String>,
    /// `default` for the tenant's own rule, else `key:value`, or `key` for every value; several are joined by `|`.
    #[serde(default)]
    #[schema(example = "endpoint:POST /api/v1/orders", max_length = 1024)]
    descriptor: Option<String>,
    /// The limit of the rule that it replaces; by default the one with the same unit, or the only one.
    #[serde(default)]
    #[schema(max_length = 256)]
    limit: Option<String>,
    /// The number of requests; 0 blocks the tenant.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9_007_199_254_740_992_i64, example = 500)]
    requests_per_unit: Option<i64>,
    /// The unit: second, minute, hour, day, week, month or year.
    #[serde(default)]
    #[schema(example = "minute")]
    unit: Option<String>,
    /// Another duration instead of the unit, such as 90s.
    #[serde(default)]
    #[schema(example = json!(null))]
    duration: Option<String>,
    /// The burst of a bucket algorithm.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_992_i64)]
    burst: Option<i64>,
    /// The algorithm, if it is not that of the rule.
    #[serde(default)]
    algorithm: Option<String>,
    /// Whether everything is allowed.
    #[serde(default)]
    unlimited: bool,
    /// When it begins; at once by default.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    effective_at: Option<Timestamp>,
    /// When it ends; never by default.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

impl QuotaPut {
    /// Converts it for the catalog. A descriptor for which `is_own` returns true is the tenant's own entry, and means
    /// `default`.
    pub(super) fn draft(self, is_own: impl Fn(Option<&str>, &str) -> bool) -> ApiResult<TenantDraft> {
        let (effective_at, expires_at) = (self.effective_at, self.expires_at);
        let overrides = self.overrides.into_iter().enumerate().map(|(index, put)| {
            let duration_us = put.duration.as_deref().map(duration_us).transpose().map_err(|remedy| {
                let found = put.duration.as_deref().unwrap_or_default();
                let reason = format!("must be a duration such as 90s, got {found:?}{remedy}");
                Problem::field(format!("overrides[{index}].duration"), reason)
            })?;
            if put.unit.is_none() && duration_us.is_none() && !put.unlimited {
                let reason = "is missing: give minute, hour, …, or a duration";
                return Err(Problem::field(format!("overrides[{index}].unit"), reason));
            }
            let domain = put.domain.as_deref();
            let named = put.descriptor.filter(|text| text != DEFAULT && !is_own(domain, text));
            Ok(OverrideDraft {
                descriptor: named.unwrap_or_default(),
                domain: put.domain,
                limit: put.limit,
                unlimited: put.unlimited,
                requests: put.requests_per_unit,
                unit: put.unit,
                duration_us: duration_us.map(|us| i64::try_from(us).unwrap_or(i64::MAX)),
                burst: put.burst,
                algorithm: put.algorithm,
                effective_at: put.effective_at.or(effective_at),
                expires_at: put.expires_at.or(expires_at),
            })
        });
        Ok(TenantDraft { tier: self.tier, overrides: overrides.collect::<ApiResult<_>>()? })
    }
}

/// Parses a duration such as 90s, or the name of a unit, which earlier versions printed instead.
fn duration_us(text: &str) -> Result<u64, &'static str> {
    match tidegate::Window::named(text) {
        Some(window) => Ok(window.period_us()),
        None => micros(text),
    }
}

/// Prints a duration in a form that can be parsed again.
fn duration_text(us: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    let unit = UNITS.iter().find(|(unit, _)| us.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{us}us"), |(unit, suffix)| format!("{}{suffix}", us / unit))
}

/// A tenant with its limits.
#[derive(Serialize, ToSchema)]
pub(in crate::admin) struct Quota {
    /// The tenant's name.
    tenant: String,
    /// Its tier, if it has one.
    tier: Option<String>,
    /// Its default limit and its overrides.
    quotas: Quotas,
    /// The limits that apply to all of its requests, with the origin of their numbers.
    limits: Vec<LimitView>,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Increases with every change; it is also the `ETag`.
    revision: u64,
}

#[derive(Serialize, ToSchema)]
struct Quotas {
    /// The limit of the tenant's own rule; null if there is none.
    default: Option<LimitView>,
    /// All overrides, in effect or not.
    overrides: Vec<OverrideView>,
}

/// A tenant in a list.
#[derive(Serialize, ToSchema)]
pub(in crate::admin) struct QuotaItem {
    /// The tenant's name.
    tenant: String,
    /// Its tier, if it has one.
    tier: Option<String>,
    /// All overrides, in effect or not.
    overrides: Vec<OverrideView>,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Increases with every change.
    revision: u64,
}

/// An override of a tenant.
#[derive(Serialize, ToSchema)]
struct OverrideView {
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    /// `default` for the tenant's own rule.
    descriptor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unlimited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_unit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    effective_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// Whether it applies now, by the catalog's clock.
    in_effect: bool,
    /// Whether it has ended, by the catalog's clock. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
}

impl Quota {
    pub(super) fn new(tenant: &Tenant, limits: Vec<LimitView>, now: Timestamp) -> Self {
        let default = limits.iter().find(|limit| limit.is_default()).cloned();
        let overrides = tenant.overrides.iter().map(|item| OverrideView::new(item, now)).collect();
        Self {
            tenant: tenant.name.clone(),
            tier: tenant.tier.clone(),
            quotas: Quotas { default, overrides },
            limits,
            updated_at: tenant.updated_at,
            revision: tenant.revision,
        }
    }
}

impl QuotaItem {
    pub(super) fn new(tenant: &Tenant, now: Timestamp) -> Self {
        Self {
            tenant: tenant.name.clone(),
            tier: tenant.tier.clone(),
            overrides: tenant.overrides.iter().map(|item| OverrideView::new(item, now)).collect(),
            updated_at: tenant.updated_at,
            revision: tenant.revision,
        }
    }
}

impl OverrideView {
    fn new(item: &Override, now: Timestamp) -> Self {
        let descriptor = item.descriptor.to_string();
        let mut shown = Self {
            domain: item.domain.clone(),
            descriptor: if descriptor.is_empty() { DEFAULT.to_owned() } else { descriptor },
            limit: item.limit.clone(),
            unlimited: false,
            requests_per_unit: None,
            unit: None,
            duration: None,
            burst: None,
            algorithm: None,
            effective_at: item.effective_at,
            expires_at: item.expires_at,
            in_effect: item.holds_at(now),
            ended: item.expires_at.is_some_and(|end| end <= now),
        };
        match &item.allowance {
            Allowance::Unlimited => shown.unlimited = true,
            Allowance::Limited(numbers) => {
                shown.requests_per_unit = Some(numbers.requests);
                shown.burst = numbers.burst;
                shown.algorithm.clone_from(&numbers.algorithm);
                match numbers.window {
                    Some(Window::Unit(unit)) => shown.unit = Some(unit.name()),
                    Some(Window::DurationUs(us)) => {
                        shown.duration = Some(duration_text(us));
                    }
                    None => {}
                }
            }
        }
        shown
    }
}
