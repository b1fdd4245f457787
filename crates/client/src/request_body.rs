//! The JSON of requests to the service.

use std::borrow::Cow;

use serde::Serialize;
use tidegate::{AlgorithmName, InlineError, InlineLimits, LimitSpec, Request, Window, spelling};
use tidegate_core::LeakyMode;

/// How many sub-windows a limit has unless it says otherwise. The JSON has no member for other numbers.
const DEFAULT_BUCKETS: u32 = 60;

/// The body of `/v1/check` and of the paths that take the same members.
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

/// A limit that goes with a request.
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

/// Which costs and limits a body has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Costs {
    /// Those of the request.
    OfRequest,
    /// The request's limits at a cost of 0, which charges nothing.
    Zero,
    /// Neither costs nor limits: paths about slots take none.
    Omitted,
}

/// The body that charges a request, or refunds it.
pub(crate) fn charge(request: &Request<'_>) -> Vec<u8> {
    write(request, None, Costs::OfRequest, None)
}

/// The body that reserves a request's cost for so long.
pub(crate) fn reserve(request: &Request<'_>, ttl_ms: u64) -> Vec<u8> {
    write(request, None, Costs::OfRequest, Some(ttl_ms))
}

/// The body that peeks at the limits of a request, or of one of its descriptors alone.
pub(crate) fn peek(request: &Request<'_>, descriptor: Option<usize>) -> Vec<u8> {
    write(request, descriptor, Costs::Zero, None)
}

/// The body that acquires slots. It is the same for all requests of the same domain and descriptors.
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

/// A body as JSON. Texts and numbers always can be written.
pub(crate) fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

fn limits(limits: &InlineLimits) -> Vec<LimitBody<'_>> {
    limits.specs().iter().map(limit).collect()
}

/// A limit as the application wrote it: the service fills in what it does not say.
fn limit(spec: &LimitSpec) -> LimitBody<'_> {
    // A limit with a burst is a token bucket unless it says otherwise.
    let implied = spec.burst.is_some() && spec.algorithm == Some(AlgorithmName::TokenBucket);
    LimitBody {
        name: spec.name.as_deref(),
        requests: spec.requests,
        per: spec.window.to_string(),
        algorithm: spec.algorithm.filter(|_| !implied).map(AlgorithmName::name),
        burst: spec.burst,
    }
}

/// Checks that the JSON has members for all that the limits say.
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
