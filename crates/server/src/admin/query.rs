//! Query parameters. A mistake is reported with its parameter.

use crate::problem::Problem;
use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

/// The parameters of the query.
pub(super) struct Parameters<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let reader = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
        let value = serde_path_to_error::deserialize(reader).map_err(|error| {
            let field = error.path().to_string();
            let field = if field == "." { "query".to_owned() } else { field };
            Problem::field(field, error.into_inner().to_string())
        })?;
        Ok(Self(value))
    }
}
