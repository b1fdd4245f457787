//! The JSON of requests to the service.

use std::borrow::Cow;

use serde::Serialize;
use tidegate::{AlgorithmName, InlineError, InlineLimits, LimitSpec, Request, Window, spelling};
use tidegate_core::LeakyMode;

/// The default number of sub-windows. The JSON has no member for other numbers.
const DEFAULT_BUCKETS: u32 = 60;

/// The body of `/v1/check`, and of the other endpoints that take the same members.
#[derive(Serialize)]
struct CheckBody<'a> {
    domain: &'a str,
    descriptors: Vec<DescriptorBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

#[derive(Serialize)]
struct DescriptorBody<'a> {
    entries: Vec<EntryBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitBody<'a>>,
}

#[derive(Serialize)]
struct EntryBody<'a> {
    key: &'a str,
    value: Cow<'a, str>,
}

/// An inline limit of a request.
#[derive(Serialize)]
struct LimitBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    requests: u64,
    per: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
}

/// Which costs and limits a body contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Costs {
    /// The costs and limits of the request.
    OfRequest,
    /// The limits of the request with a cost of 0, which charges nothing.
    Zero,
    /// Neither costs nor limits, for the endpoints for slots, which accept none.
    Omitted,
}

/// Returns the body that charges or refunds a request.
pub(crate) fn charge(request: &Request<'_>) -> Vec<u8> {
    write(request, None, Costs::OfRequest, None)
}

/// Returns the body that reserves the cost of a request for `ttl_ms` milliseconds.
pub(crate) fn reserve(request: &Request<'_>, ttl_ms: u64) -> Vec<u8> {
    write(request, None, Costs::OfRequest, Some(ttl_ms))
}

/// Returns the body that peeks at the limits of a request, or of a single one of its descriptors.
pub(crate) fn peek(request: &Request<'_>, descriptor: Option<usize>) -> Vec<u8> {
    write(request, descriptor, Costs::Zero, None)
}

/// Returns the body that acquires slots. It depends only on the domain and the descriptors.
pub(crate) fn acquire(request: &Request<'_>) -> Vec<u8> {
    write(request, None, Costs::Omitted, None)
}

fn write(request: &Request<'_>, only: Option<usize>, costs: Costs, ttl_ms: Option<u64>) -> Vec<u8> {
    let descriptors = request.descriptors().enumerate();
    let descriptors = descriptors.filter(|(index, _)| only.is_none_or(|only| only == *index));
    let descriptors = descriptors.map(|(index, (entries, _))| DescriptorBody {
        entries: entries
            .iter()
            .map(|(key, value)| EntryBody { key, value: spelling::value(value) })
            .collect(),
        cost: request.own_cost(index).filter(|_| costs == Costs::OfRequest).map(spelling::cost),
        limits: request.limits_of(index).filter(|_| costs != Costs::Omitted).map(limits).unwrap_or_default(),
    });
    let cost = match costs {
        Costs::OfRequest => Some(spelling::cost(request.common_cost())),
        Costs::Zero => Some(0),
        Costs::Omitted => None,
    };
    json(&CheckBody { domain: request.domain(), descriptors: descriptors.collect(), cost, ttl_ms })
}

/// Serializes a body as JSON, which cannot fail for strings and numbers.
pub(crate) fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

fn limits(limits: &InlineLimits) -> Vec<LimitBody<'_>> {
    limits.specs().iter().map(limit).collect()
}

/// Converts a limit. Fields that the application left out are left out here too; the service fills them in.
fn limit(spec: &LimitSpec) -> LimitBody<'_> {
    // A limit with a burst is a token bucket unless it names another algorithm.
    let implied = spec.burst.is_some() && spec.algorithm == Some(AlgorithmName::TokenBucket);
    LimitBody {
        name: spec.name.as_deref(),
        requests: spec.requests,
        per: spec.window.to_string(),
        algorithm: spec.algorithm.filter(|_| !implied).map(AlgorithmName::name),
        burst: spec.burst,
    }
}

/// Checks that the limits can be expressed in the JSON.
pub(crate) fn can_be_sent(limits: &[LimitSpec]) -> Result<(), InlineError> {
    for spec in limits {
        if let Some(reason) = reason_against(spec) {
            let name = spec.name.clone().unwrap_or_else(|| spec.window.to_string());
            return Err(InlineError::Invalid { name, reason: reason.to_owned() });
        }
    }
    Ok(())
}

fn reason_against(spec: &LimitSpec) -> Option<&'static str> {
    if matches!(spec.window, Window::Calendar(_)) {
        return Some("a calendar window cannot be sent with a request; put it into the service's rules");
    }
    if spec.buckets.is_some_and(|buckets| buckets != DEFAULT_BUCKETS) {
        return Some("only 60 sub-windows can be sent with a request; put others into the service's rules");
    }
    (spec.mode == Some(LeakyMode::Queue))
        .then_some("a queue cannot be sent with a request; put it into the service's rules")
}
