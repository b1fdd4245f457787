//! `/admin/v1/explain`: why a request is decided as it is.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tidegate::{Explanation, MAX_COUNT, Request};
use utoipa::ToSchema;

use super::Admin;
use super::body::JsonBody;
use super::problem::{Answer, Problem};

/// The request in question.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    domain: String,
    descriptors: Vec<Descriptor>,
    #[serde(default = "one")]
    cost: u64,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    entries: Vec<Entry>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    value: String,
}

fn one() -> u64 {
    1
}

/// Why a request would be decided as it would; nothing is charged.
#[utoipa::path(
    post, path = "/explain", tag = "explain", request_body = Asked,
    responses(
        (status = 200, description = "Each rule on the way, and what each limit says", body = Object),
        (status = 422, description = "A field makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn explain(
    State(admin): State<Admin>,
    JsonBody(asked): JsonBody<Asked>,
) -> Answer<Json<Explanation>> {
    if asked.cost > MAX_COUNT {
        return Err(Problem::field("cost", format!("must be at most {MAX_COUNT}, got {}", asked.cost)));
    }
    let entries = |descriptor: &'_ Descriptor| -> Vec<(String, String)> {
        descriptor.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    };
    let owned: Vec<Vec<(String, String)>> = asked.descriptors.iter().map(entries).collect();
    if owned.is_empty() || owned.len() > admin.bounds.descriptors {
        let reason = format!("must be 1 to {}, got {}", admin.bounds.descriptors, owned.len());
        return Err(Problem::field("descriptors", reason));
    }
    let borrowed: Vec<Vec<(&str, &str)>> =
        owned.iter().map(|entries| entries.iter().map(|(key, value)| (&**key, &**value)).collect()).collect();
    let first = Request::new(&asked.domain, &borrowed[0]).cost(asked.cost);
    let request = borrowed[1..].iter().fold(first, Request::and);
    let explanation = admin.limiter.explain_anywhere(&request).await;
    Ok(Json(explanation))
}
