//! `/admin/v1/why`: why a request was denied, or how one would be decided.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use tidegate::{Explanation, MAX_COUNT, Request};
use utoipa::ToSchema;

use super::body::JsonBody;
use super::denials::DenialView;
use super::explain::{Descriptor, Entry};
use super::top::hiding_rules;
use super::{Admin, ApiResult};
use crate::http::forward_auth;
use crate::problem::Problem;
use crate::recorder::{Descriptors, RecordedDenial};
use crate::request_id::RequestId;

/// The most headers in a body.
const MAX_HEADERS: usize = 100;
/// Shown instead of a value that a rule hides.
const HIDDEN: &str = "(hidden)";

/// A recorded denial, the descriptors of a request, or its headers.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyBody {
    /// The ID of a recorded denial. Without it, `domain` is needed.
    denial: Option<String>,
    domain: Option<String>,
    descriptors: Option<Vec<Descriptor>>,
    /// The cost of the request; 1 by default.
    cost: Option<u64>,
    /// The headers of a request, from which `forward_auth` of the domain makes descriptors.
    headers: Option<BTreeMap<String, String>>,
    /// The method of the request with these headers.
    method: Option<String>,
    /// The path of the request with these headers.
    path: Option<String>,
}

/// Why.
#[derive(Serialize, ToSchema)]
pub(super) struct Why {
    /// As of `POST /admin/v1/explain`: what the same request would find now.
    #[schema(value_type = Object)]
    explanation: Explanation,
    /// The recorded denial.
    denial: Option<DenialView>,
    /// `memory` or `redis`.
    store: &'static str,
    node: String,
    rules_version: String,
    /// The descriptors that were made of headers.
    mapped: Option<Vec<Descriptor>>,
}

/// Explains a recorded denial, or how a request of these descriptors or headers would be decided. Nothing is charged.
#[utoipa::path(
    post, path = "/why", tag = "explain", request_body = WhyBody,
    responses(
        (status = 200, description = "The rules that match, and the state of each limit", body = Why),
        (status = 404, description = "The denial is not kept any more", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn why(
    State(admin): State<Admin>,
    JsonBody(body): JsonBody<WhyBody>,
) -> ApiResult<Json<Why>> {
    if let Some(id) = &body.denial {
        return of_denial(&admin, id).await.map(Json);
    }
    let Some(domain) = &body.domain else {
        return Err(Problem::field("domain", "is needed, or the denial that is to be explained"));
    };
    let (descriptors, mapped) = body.descriptors(&admin, domain)?;
    let why = explained(&admin, domain, &descriptors).await;
    Ok(Json(Why { mapped, ..why }))
}

/// The response to a request that was sent for real.
#[derive(Serialize, ToSchema)]
pub(super) struct Tried {
    /// The status that `POST /v1/check` responds with.
    status: u16,
    /// Its headers.
    headers: BTreeMap<String, String>,
    /// Its body.
    #[schema(value_type = Object)]
    body: serde_json::Value,
    /// The descriptors that were made of headers.
    mapped: Option<Vec<Descriptor>>,
}

/// Decides a request of these descriptors or headers for real: it is charged and recorded.
#[utoipa::path(
    post, path = "/try", tag = "explain", request_body = WhyBody,
    responses((status = 200, description = "The decision, as `POST /v1/check` responds", body = Tried))
)]
pub(super) async fn send(
    State(admin): State<Admin>,
    JsonBody(body): JsonBody<WhyBody>,
) -> ApiResult<Json<Tried>> {
    if body.denial.is_some() {
        return Err(Problem::field("denial", "cannot be sent again; send its domain and descriptors"));
    }
    let Some(domain) = &body.domain else { return Err(Problem::field("domain", "is needed")) };
    let (descriptors, mapped) = body.descriptors(&admin, domain)?;
    let borrowed = borrowed(&descriptors);
    let request = request(domain, &borrowed);
    let decision = admin.decider.decide(&request, RequestId::NONE).await;
    let (mut headers, mut json) = (BTreeMap::new(), Vec::new());
    admin.renderer.headers(&request, &decision, admin.limiter.now(), |name, value| {
        headers.insert(name.to_string(), value.to_owned());
    });
    admin.renderer.json(&request, &decision, &mut json);
    let body = serde_json::from_slice(&json).unwrap_or_default();
    let status = admin.renderer.status(&decision).as_u16();
    Ok(Json(Tried { status, headers, body, mapped }))
}

impl WhyBody {
    /// Returns the descriptors of the request; and once more to be shown, if they were made of headers.
    fn descriptors(&self, admin: &Admin, domain: &str) -> ApiResult<(Descriptors, Option<Vec<Descriptor>>)> {
        let cost = self.cost.unwrap_or(1);
        if cost > MAX_COUNT {
            return Err(Problem::field("cost", format!("must be at most {MAX_COUNT}, got {cost}")));
        }
        match (&self.descriptors, &self.headers) {
            (Some(descriptors), None) => Ok((given(admin, descriptors, cost)?, None)),
            (None, Some(headers)) => {
                let descriptors = mapped(admin, domain, headers, self, cost)?;
                let shown = descriptors.iter().map(|(entries, _)| Descriptor::of(entries)).collect();
                Ok((descriptors, Some(shown)))
            }
            _ => Err(Problem::field("descriptors", "either descriptors or headers are needed")),
        }
    }
}

async fn of_denial(admin: &Admin, id: &str) -> ApiResult<Why> {
    let denial = id.parse().ok().and_then(|number| admin.recorder.denial(number));
    let denial = denial.ok_or_else(|| {
        Problem::not_found(format!("the denial {id:?} is not kept any more; each rule keeps its last ones"))
    })?;
    let hide = denial.text.is_none() || hiding_rules(&admin.limiter).has(&denial.domain, &denial.rule);
    let view = DenialView::new(&denial, hide);
    let RecordedDenial { domain, request, .. } = denial;
    let Some(descriptors) = request else {
        let detail = "the request of this denial was too long to be kept; send its descriptors instead";
        return Err(Problem::not_found(detail));
    };
    let mut why = explained(admin, &domain, &descriptors).await;
    if hide {
        hide_values(&mut why.explanation);
    }
    why.denial = Some(view);
    Ok(why)
}

/// Hides every value of an explanation. Several rules may show the same one.
fn hide_values(explanation: &mut Explanation) {
    for descriptor in &mut explanation.descriptors {
        descriptor.tenant = descriptor.tenant.take().map(|_| HIDDEN.to_owned());
        for entry in &mut descriptor.entries {
            HIDDEN.clone_into(&mut entry.value);
        }
    }
}

async fn explained(admin: &Admin, domain: &str, descriptors: &Descriptors) -> Why {
    let borrowed = borrowed(descriptors);
    let request = request(domain, &borrowed);
    Why {
        explanation: admin.limiter.explain_anywhere(&request).await,
        denial: None,
        store: if admin.limiter.is_shared() { "redis" } else { "memory" },
        node: admin.node.clone(),
        rules_version: admin.limiter.generation().to_string(),
        mapped: None,
    }
}

/// The entries and the cost of each descriptor of a request.
type Borrowed<'d> = Vec<(Vec<(&'d str, &'d str)>, u64)>;

fn borrowed(descriptors: &Descriptors) -> Borrowed<'_> {
    let entries = descriptors.iter().map(|(entries, cost)| {
        (entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(), *cost)
    });
    entries.collect()
}

fn request<'d>(domain: &'d str, descriptors: &'d Borrowed<'d>) -> Request<'d> {
    let mut rest = descriptors.iter();
    let first = match rest.next() {
        Some((entries, cost)) => Request::new(domain, entries).descriptor_cost(*cost),
        None => Request::new(domain, []),
    };
    rest.fold(first, |request, (entries, cost)| request.and(entries).descriptor_cost(*cost))
}

fn given(admin: &Admin, descriptors: &[Descriptor], cost: u64) -> ApiResult<Descriptors> {
    if descriptors.is_empty() || descriptors.len() > admin.bounds.descriptors {
        let reason = format!("must be 1 to {}, got {}", admin.bounds.descriptors, descriptors.len());
        return Err(Problem::field("descriptors", reason));
    }
    let entries = |descriptor: &Descriptor| {
        descriptor.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    };
    Ok(descriptors.iter().map(|descriptor| (entries(descriptor), cost)).collect())
}

/// Returns the descriptors that `forward_auth` makes of headers, as for a request of a proxy.
fn mapped(
    admin: &Admin,
    domain: &str,
    headers: &BTreeMap<String, String>,
    body: &WhyBody,
    cost: u64,
) -> ApiResult<Descriptors> {
    let mapping = admin.limiter.forward_auth(domain).ok_or_else(|| {
        Problem::field(
            "domain",
            format!("domain {domain:?} has no `forward_auth` in its rules; send descriptors"),
        )
    })?;
    if headers.len() > MAX_HEADERS {
        return Err(Problem::field(
            "headers",
            format!("must be at most {MAX_HEADERS}, got {}", headers.len()),
        ));
    }
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || Problem::field("headers", format!("{name:?} is not a valid header"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        map.append(name, HeaderValue::from_str(value).map_err(|_| wrong())?);
    }
    forward_auth::describe(&mut map, &mapping, body.method.as_deref(), body.path.as_deref())
        .map_err(|field| Problem::field(field, "is not a valid header value"))?;
    let peer = Ipv4Addr::LOCALHOST.into();
    let values = forward_auth::values(&admin.client_ip, &admin.bounds, peer, &map, &mapping);
    let descriptors = forward_auth::descriptors(&mapping, &values);
    let owned = |entries: Vec<(&str, &str)>| -> Vec<(String, String)> {
        entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    Ok(descriptors.into_iter().map(|entries| (owned(entries), cost)).collect())
}

impl Descriptor {
    fn of(entries: &[(String, String)]) -> Self {
        let entry = |(key, value): &(String, String)| Entry { key: key.clone(), value: value.clone() };
        Self { entries: entries.iter().map(entry).collect() }
    }
}
