//! What is sent: the JSON of `POST /v1/check` and its kin.

use std::borrow::Cow;

use serde::Serialize;
use tidegate_core::{Algorithm, LeakyMode, Limit, Window};

use crate::inline::{InlineError, InlineLimits};
use crate::request::Request;
use crate::rules::limit_spec::{AlgorithmName, LimitSpec};
use crate::spelling;

/// So many sub-windows there are if nothing else is said, and the wire has no word for others.
const USUAL_BUCKETS: u32 = 60;

#[derive(Serialize)]
struct Asked<'a> {
    domain: &'a str,
    descriptors: Vec<Descriptor<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

#[derive(Serialize)]
struct Descriptor<'a> {
    entries: Vec<Entry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<Sent<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    key: &'a str,
    value: Cow<'a, str>,
}

/// A limit that goes with a request.
#[derive(Serialize)]
struct Sent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    requests: u64,
    per: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
}

/// Which costs are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Costs {
    /// Those of the request.
    Asked,
    /// 0: the service only looks.
    Nothing,
    /// None, where the service takes none.
    Untold,
}

/// The body that asks about a request.
pub(super) fn write(request: &Request<'_>, costs: Costs, ttl_ms: Option<u64>) -> Vec<u8> {
    write_some(request, |_| true, costs, ttl_ms)
}

/// The body that looks at one of a request's descriptors.
pub(super) fn look_at(request: &Request<'_>, descriptor: usize) -> Vec<u8> {
    write_some(request, |index| index == descriptor, Costs::Nothing, None)
}

fn write_some(
    request: &Request<'_>,
    asked_about: impl Fn(usize) -> bool,
    costs: Costs,
    ttl_ms: Option<u64>,
) -> Vec<u8> {
    let descriptors = request.descriptors().enumerate().filter(|(index, _)| asked_about(*index));
    let descriptors = descriptors.map(|(index, (entries, _))| Descriptor {
        entries: entries.iter().map(|(key, value)| Entry { key, value: spelling::value(value) }).collect(),
        cost: request.own_cost(index).filter(|_| costs == Costs::Asked).map(spelling::cost),
        // Slots are those of the rules: whoever acquires them brings no limits along.
        limits: request.limits_of(index).filter(|_| costs != Costs::Untold).map(sent).unwrap_or_default(),
    });
    let cost = match costs {
        Costs::Asked => Some(spelling::cost(request.common_cost())),
        Costs::Nothing => Some(0),
        Costs::Untold => None,
    };
    let asked = Asked { domain: request.domain(), descriptors: descriptors.collect(), cost, ttl_ms };
    // Texts and numbers are always JSON.
    serde_json::to_vec(&asked).unwrap_or_default()
}

fn sent(limits: &InlineLimits) -> Vec<Sent<'_>> {
    limits.specs().iter().map(sent_one).collect()
}

/// As it was written: where it does not say, the service does.
fn sent_one(spec: &LimitSpec) -> Sent<'_> {
    // A burst is a token bucket's unless something else is said.
    let implied = spec.burst.is_some() && spec.algorithm == Some(AlgorithmName::TokenBucket);
    Sent {
        name: spec.name.as_deref(),
        requests: spec.requests,
        per: spec.window.to_string(),
        algorithm: spec.algorithm.filter(|_| !implied).map(AlgorithmName::name),
        burst: spec.burst,
    }
}

/// Whether the wire has words for all of the limits.
pub(crate) fn can_be_sent(limits: &InlineLimits) -> Result<(), InlineError> {
    for entry in &limits.0.limits {
        if let Some(reason) = unspeakable(&entry.limit) {
            return Err(InlineError::Invalid { name: entry.name.to_string(), reason: reason.to_owned() });
        }
    }
    Ok(())
}

fn unspeakable(limit: &Limit) -> Option<&'static str> {
    if matches!(limit.window(), Window::Calendar(_)) {
        return Some("a calendar window cannot be sent with a request; put it into the service's rules");
    }
    match limit.algorithm() {
        Algorithm::SubWindows { buckets } if buckets != USUAL_BUCKETS => {
            Some("only 60 sub-windows can be sent with a request; put others into the service's rules")
        }
        Algorithm::LeakyBucket { mode: LeakyMode::Queue, .. } => {
            Some("a queue cannot be sent with a request; put it into the service's rules")
        }
        _ => None,
    }
}
