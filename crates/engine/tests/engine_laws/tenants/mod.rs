//! Tenants with tiers and limits of their own.

mod changes;
mod check_override;
mod listing;
mod resolution;
mod usage;
mod ways;
mod written_out;

use tidegate::{LimitChange, Limiter, Override, Request, Tenant, TenantChange, VirtualClock};

use crate::support::limiter;

/// Most laws are about these rules.
pub(super) fn rules() -> (Limiter, VirtualClock) {
    limiter(
        "
domain: d
tenant: api_key
tenants: {acme: pro}
descriptors:
  - key: api_key
    limits:
      - {name: steady, requests: 10, per: minute, algorithm: token_bucket}
      - {name: daily, requests: 100, per: day, algorithm: fixed_window, calendar: Europe/Berlin}
    tiers:
      pro: {steady: {requests: 20, burst: 15}, daily: unlimited}
      gold: {steady: {requests: 200}}
    descriptors:
      - {key: endpoint, value: /orders, rate_limit: {unit: minute, requests_per_unit: 4}}
      - {key: endpoint, value: '/files/*', rate_limit: {unit: minute, requests_per_unit: 6}}
      - {key: endpoint, rate_limit: {unit: minute, requests_per_unit: 8}}
  - {key: ip, rate_limit: {unit: minute, requests_per_unit: 30}}
  - {key: region, value: eu, rate_limit: {unit: minute, requests_per_unit: 50}}
",
    )
}

/// A change to so many requests.
pub(super) fn requests(requests: u64) -> LimitChange {
    LimitChange { requests: Some(requests), ..LimitChange::default() }
}

/// An override of `steady` to so many requests.
pub(super) fn steady(count: u64) -> Override {
    Override::of(LimitChange { burst: Some(count), ..requests(count) }).limit("steady")
}

/// An override of the endpoint's limit.
pub(super) fn endpoint(value: Option<&str>, count: u64) -> Override {
    Override::of(requests(count)).entry("endpoint", value)
}

pub(super) fn put(limiter: &Limiter, tenant: Tenant) {
    limiter.change_tenants([TenantChange::Put(tenant)]);
}

pub(super) fn key(name: &str) -> Request<'_> {
    Request::new("d", [("api_key", name)])
}

pub(super) fn at<'a>(name: &'a str, endpoint: &'a str) -> Request<'a> {
    Request::new("d", [("api_key", name), ("endpoint", endpoint)])
}
