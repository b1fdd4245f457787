//! `/admin/v1/explain`: why a request would be decided as it would.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate::{Explanation, MAX_COUNT, Request};
use utoipa::ToSchema;

use super::Admin;
use super::ApiResult;
use super::body::JsonBody;
use crate::problem::Problem;

/// The request to explain.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainBody {
    domain: String,
    descriptors: Vec<Descriptor>,
    #[serde(default = "one")]
    cost: u64,
}

/// A descriptor.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Descriptor {
    pub(super) entries: Vec<Entry>,
}

/// An entry of a descriptor.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: String,
}

fn one() -> u64 {
    1
}

/// Explains how a request would be decided. Nothing is charged.
#[utoipa::path(
    post, path = "/explain", tag = "explain", request_body = ExplainBody,
    responses(
        (status = 200, description = "The rules that match, and the state of each limit", body = Object),
        (status = 422, description = "A field is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn explain(
    State(admin): State<Admin>,
    JsonBody(body): JsonBody<ExplainBody>,
) -> ApiResult<Json<Explanation>> {
    if body.cost > MAX_COUNT {
        return Err(Problem::field("cost", format!("must be at most {MAX_COUNT}, got {}", body.cost)));
    }
    let entries = |descriptor: &'_ Descriptor| -> Vec<(String, String)> {
        descriptor.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    };
    let owned: Vec<Vec<(String, String)>> = body.descriptors.iter().map(entries).collect();
    if owned.is_empty() || owned.len() > admin.bounds.descriptors {
        let reason = format!("must be 1 to {}, got {}", admin.bounds.descriptors, owned.len());
        return Err(Problem::field("descriptors", reason));
    }
    let borrowed: Vec<Vec<(&str, &str)>> =
        owned.iter().map(|entries| entries.iter().map(|(key, value)| (&**key, &**value)).collect()).collect();
    let first = Request::new(&body.domain, &borrowed[0]).cost(body.cost);
    let request = borrowed[1..].iter().fold(first, Request::and);
    let explanation = admin.limiter.explain_anywhere(&request).await;
    Ok(Json(explanation))
}
