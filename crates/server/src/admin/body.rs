//! Bodies of requests. A mistake is reported with its field. A body must arrive in time and within the bound, because its
//! connection waits for it.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use tidegate_http2::MemoryBudget;

use super::MAX_BODY_BYTES;
use crate::body::{collect, unsupported_coding};
use crate::problem::Problem;

/// A JSON body.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        reject_coding(&request)?;
        let kind = request.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
        if let Some(kind) = kind.filter(|kind| !is_json(kind)) {
            let detail = format!("the body must be application/json, got {kind:?}");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let bytes = whole(request).await?;
        let mut reader = serde_json::Deserializer::from_slice(&bytes);
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let (field, inner) = (error.path().to_string(), error.inner());
            match inner.classify() {
                serde_json::error::Category::Data => Problem::field(field, inner.to_string()),
                _ => Problem::bad(format!("the body is not JSON: {inner}")),
            }
        })?;
        reader.end().map_err(|error| Problem::bad(format!("the body is not JSON: {error}")))?;
        Ok(Self(value))
    }
}

/// A body of rules: YAML, or JSON, which is a subset of YAML.
pub(super) struct RulesBody(pub(super) String);

impl<S: Send + Sync> FromRequest<S> for RulesBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        reject_coding(&request)?;
        let bytes = whole(request).await?;
        let text = String::from_utf8(bytes.into());
        let text = text.map_err(|error| Problem::bad(format!("the rules are not UTF-8: {error}")))?;
        if text.trim().is_empty() {
            return Err(Problem::bad("the body is empty; send the rules as YAML"));
        }
        Ok(Self(text))
    }
}

fn reject_coding(request: &Request) -> Result<(), Problem> {
    unsupported_coding(request.headers()).map_or(Ok(()), |refusal| Err(Problem::coded(refusal)))
}

async fn whole(request: Request) -> Result<Bytes, Problem> {
    let budget = request.extensions().get::<MemoryBudget>().cloned().unwrap_or_default();
    let too_long = |found| format!("the body must be at most {MAX_BODY_BYTES} bytes long, got {found}");
    let collected = collect(request.into_body(), MAX_BODY_BYTES, &budget).await;
    collected.map_err(|error| Problem::of_body(&error, too_long))
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}
