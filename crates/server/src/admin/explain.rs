//! `/admin/v1/explain`: why a request is decided as it is.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use tidegate::Request;

use super::Admin;

/// The request in question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    domain: String,
    descriptors: Vec<Descriptor>,
    #[serde(default = "one")]
    cost: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    value: String,
}

fn one() -> u64 {
    1
}

/// Answers the explanation; charges nothing.
pub(super) async fn explain(
    State(admin): State<Admin>,
    asked: Result<Json<Asked>, JsonRejection>,
) -> Response {
    let Json(asked) = match asked {
        Ok(asked) => asked,
        Err(rejection) => return (rejection.status(), rejection.body_text()).into_response(),
    };
    let entries = |descriptor: &'_ Descriptor| -> Vec<(String, String)> {
        descriptor.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    };
    let owned: Vec<Vec<(String, String)>> = asked.descriptors.iter().map(entries).collect();
    if owned.is_empty() || owned.len() > admin.bounds.descriptors {
        let detail = format!("descriptors must be 1 to {}, got {}", admin.bounds.descriptors, owned.len());
        return (StatusCode::BAD_REQUEST, detail).into_response();
    }
    let borrowed: Vec<Vec<(&str, &str)>> =
        owned.iter().map(|entries| entries.iter().map(|(key, value)| (&**key, &**value)).collect()).collect();
    let first = Request::new(&asked.domain, &borrowed[0]).cost(asked.cost);
    let request = borrowed[1..].iter().fold(first, Request::and);
    let explanation = admin.limiter.explain_anywhere(&request).await;
    Json(explanation).into_response()
}
