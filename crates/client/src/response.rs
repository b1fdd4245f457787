//! Parses the JSON of responses.

use std::time::Duration;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use tidegate::{Limit, MAX_COUNT, Rendered, Source, StatedLimit, Statement, Window};
use tidegate_core::Algorithm;

use crate::error::ClientError;
use crate::transport::{Response, detail_of};

/// The header that states the windows of limits.
const POLICY: &str = "ratelimit-policy";

/// The members of a decision.
#[derive(Deserialize)]
struct DecisionBody {
    allowed: bool,
    decided_by: Option<LimitName>,
    source: String,
    #[serde(default)]
    limits: Vec<LimitBody>,
}

#[derive(Deserialize)]
struct LimitName {
    rule: String,
    name: String,
}

/// One limit of a decision.
#[derive(Deserialize)]
pub(crate) struct LimitBody {
    rule: String,
    name: String,
    limit: u64,
    remaining: u64,
    reset_after_ms: u64,
    retry_after_ms: Option<u64>,
    shadow: bool,
}

/// One element of the response to a batch.
#[derive(Deserialize)]
struct BatchElement<'a> {
    status: u16,
    #[serde(default)]
    headers: OrderedHeaders,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// A JSON object of strings, in its original order.
#[derive(Default)]
struct OrderedHeaders(Vec<(String, String)>);

impl<'de> Deserialize<'de> for OrderedHeaders {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = OrderedHeaders;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedHeaders, A::Error> {
                let mut headers = Vec::new();
                while let Some(header) = map.next_entry()? {
                    headers.push(header);
                }
                Ok(OrderedHeaders(headers))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Parses the decision on a single request.
pub(crate) fn decision(response: &Response) -> Result<Statement, ClientError> {
    let body = std::str::from_utf8(&response.body)
        .map_err(|error| ClientError::InvalidResponse(error.to_string()))?;
    let headers = response.headers.iter().filter(|(name, _)| is_about_limits(name.as_str()));
    let headers =
        headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let content_type = response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    statement(response.status.as_u16(), content_type, headers.collect(), body)
}

/// Parses the decisions on a batch of `count` requests.
pub(crate) fn batch(
    response: &Response,
    count: usize,
) -> Result<Vec<Result<Statement, ClientError>>, ClientError> {
    if response.status != StatusCode::OK {
        return Err(response.rejection());
    }
    let elements: Vec<BatchElement<'_>> = serde_json::from_slice(&response.body)?;
    if elements.len() != count {
        let reason = format!("{} decisions on {count} requests", elements.len());
        return Err(ClientError::InvalidResponse(reason));
    }
    let each = elements.into_iter().map(|BatchElement { status, headers, body }| {
        let headers = headers.0.into_iter().filter(|(name, _)| is_about_limits(name)).collect();
        statement(status, None, headers, body.get())
    });
    Ok(each.collect())
}

/// Returns the status of limits if no decision was made.
pub(crate) fn standing(limits: &[LimitBody]) -> Result<Statement, ClientError> {
    let limits: Result<Vec<_>, _> = limits.iter().map(|limit| limit.stated(None, false)).collect();
    let limits = limits?;
    let deciding = deciding(&limits, true);
    Ok(Statement { allowed: true, source: Source::Shared, limits, deciding, rendered: None })
}

/// Computes the decision at this cost from a peek at a cost of 0, by what is left of each limit.
pub(crate) fn weigh(peeked: &mut Statement, cost: u64) {
    for limit in &mut peeked.limits {
        let wait = limit.reset_after.max(Duration::from_millis(1));
        limit.retry_after = (limit.remaining < cost).then_some(wait);
    }
    peeked.allowed = !peeked.limits.iter().any(|limit| !limit.shadow && limit.retry_after.is_some());
    peeked.deciding = deciding(&peeked.limits, peeked.allowed);
    // The rendered response is for a cost of 0.
    peeked.rendered = None;
}

/// Adds the limits from a peek at another descriptor.
pub(crate) fn join(peeked: &mut Statement, other: Statement) {
    peeked.limits.extend(other.limits);
    peeked.allowed &= other.allowed;
    peeked.deciding = deciding(&peeked.limits, peeked.allowed);
}

/// Returns the index of the deciding limit: for a denial the one with the longest wait, else the one with the least
/// left.
fn deciding(limits: &[StatedLimit], allowed: bool) -> Option<usize> {
    let enforced = (0..limits.len()).filter(|index| !limits[*index].shadow);
    if allowed {
        return enforced.min_by_key(|index| limits[*index].remaining);
    }
    enforced.max_by_key(|index| limits[*index].retry_after)
}

fn statement(
    status: u16,
    content_type: Option<&str>,
    headers: Vec<(String, String)>,
    body: &str,
) -> Result<Statement, ClientError> {
    let default_type = match status {
        200 => "application/json",
        429 => "application/problem+json",
        500.. => return Err(ClientError::Server { status, detail: detail_of(body.as_bytes()) }),
        _ => return Err(ClientError::Rejected { status, detail: detail_of(body.as_bytes()) }),
    };
    let members: DecisionBody = serde_json::from_str(body)?;
    let content_type = content_type.unwrap_or(default_type).to_owned();
    let rendered = Rendered { status, content_type, headers, body: body.to_owned() };
    let deciding = members.deciding();
    let policies = rendered.header(POLICY).unwrap_or_default();
    let mut stated_windows = windows_s(policies).into_iter();
    let mut limits = Vec::with_capacity(members.limits.len());
    for (index, limit) in members.limits.iter().enumerate() {
        // The header lists the enforced limits, in the same order.
        let window_s = if limit.shadow { None } else { stated_windows.next().flatten() };
        limits.push(limit.stated(window_s, !members.allowed && deciding == Some(index))?);
    }
    let (allowed, source) = (members.allowed, members.source());
    Ok(Statement { allowed, source, limits, deciding, rendered: Some(rendered) })
}

impl DecisionBody {
    /// Returns the index of the limit that decided.
    fn deciding(&self) -> Option<usize> {
        let by = self.decided_by.as_ref()?;
        let same = |limit: &LimitBody| limit.rule == by.rule && limit.name == by.name && !limit.shadow;
        let denies = |limit: &LimitBody| same(limit) && limit.retry_after_ms.is_some();
        // Several descriptors may have the same limit. Of those that deny, use the one with the longest wait.
        let retry = |index: &usize| self.limits[*index].retry_after_ms;
        let denying = (0..self.limits.len()).filter(|index| denies(&self.limits[*index]));
        denying.max_by_key(retry).filter(|_| !self.allowed).or_else(|| {
            let all = (0..self.limits.len()).filter(|index| same(&self.limits[*index]));
            all.min_by_key(|index| self.limits[*index].remaining)
        })
    }

    fn source(&self) -> Source {
        match self.source.as_str() {
            "memory" => Source::Memory,
            "fallback" => Source::Fallback,
            _ => Source::Shared,
        }
    }
}

impl LimitBody {
    /// Converts the limit. If it denies without a retry time, the request can never pass.
    fn stated(&self, window_s: Option<u64>, denies: bool) -> Result<StatedLimit, ClientError> {
        let never = denies.then_some(Duration::MAX);
        Ok(StatedLimit {
            rule: self.rule.clone(),
            name: self.name.clone(),
            limit: self.numbers(window_s)?,
            shadow: self.shadow,
            remaining: self.remaining,
            reset_after: Duration::from_millis(self.reset_after_ms),
            retry_after: self.retry_after_ms.map(Duration::from_millis).or(never),
        })
    }

    /// Returns the numbers of the limit as far as they are known. The algorithm is not stated, so a fixed window is
    /// assumed. The window is taken from the header, or else from the name of the limit. If neither gives a window,
    /// it is one second.
    fn numbers(&self, window_s: Option<u64>) -> Result<Limit, ClientError> {
        let unit = self.name.rsplit('/').next().unwrap_or_default();
        let candidates = [window_s.map(Window::seconds), Window::named(unit), Some(Window::seconds(1))];
        let of_window = |window| Limit::new(Algorithm::FixedWindow, self.limit.min(MAX_COUNT), window).ok();
        let limit = candidates.into_iter().flatten().find_map(of_window);
        limit.ok_or_else(|| {
            let Self { rule, name, limit, .. } = self;
            ClientError::InvalidResponse(format!("limit {name:?} of rule {rule:?} allows {limit}"))
        })
    }
}

/// Parses the windows in `RateLimit-Policy: "a:b";q=100;w=60, …`. Names contain neither commas nor semicolons.
fn windows_s(policies: &str) -> Vec<Option<u64>> {
    let window = |policy: &str| policy.split(';').find_map(|part| part.strip_prefix("w=")?.parse().ok());
    policies.split(", ").map(window).collect()
}

/// Returns whether a header is passed on. Others belong to the connection.
fn is_about_limits(name: &str) -> bool {
    name == "retry-after" || name.starts_with("ratelimit") || name.starts_with("x-ratelimit")
}
