//! Names in paths. Invalid names are rejected.

use crate::problem::Problem;
use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use tidegate_catalog::check_name;

/// The path of the validation, which is also the path of the domain `validate`.
pub(super) const VALIDATE: &str = "/rules/validate";

/// The tenant in a path.
pub(super) struct TenantName(pub(super) String);

/// Another name in a path.
pub(super) struct PathName(pub(super) String);

/// The domain in a path.
pub(super) struct DomainName(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for TenantName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        named("tenant", parts, state).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for DomainName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // This path has no parameter, and is that of the domain `validate`.
        if parts.uri.path().ends_with(VALIDATE) {
            return Ok(Self("validate".to_owned()));
        }
        named("domain", parts, state).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        plain(parts, state).await.map(Self)
    }
}

async fn named<S: Send + Sync>(field: &str, parts: &mut Parts, state: &S) -> Result<String, Problem> {
    let name = plain(parts, state).await?;
    check_name(field, &name)?;
    Ok(name)
}

async fn plain<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Problem> {
    let path = Path::<String>::from_request_parts(parts, state).await;
    let path = path.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()));
    path.map(|Path(text)| text)
}
