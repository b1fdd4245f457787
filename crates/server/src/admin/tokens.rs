//! `/admin/v1/tokens`: tokens and their roles.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate_catalog::{Role, Token};
use utoipa::ToSchema;

use super::Admin;
use super::ApiResult;
use super::body::JsonBody;
use super::guard::Caller;
use super::name::PathName;
use crate::access::Secret;
use crate::problem::Problem;

const TAG: &str = "tokens";

/// The token to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenPost {
    /// The purpose of the token, which names it in the audit trail.
    #[schema(max_length = 256, example = "billing")]
    name: String,
    role: RoleName,
    /// When it expires; never by default.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// What a token permits. Each role includes those before it.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum RoleName {
    /// Ask for decisions, if `http.tokens` requires a token.
    Check,
    /// Read everything but tokens.
    Viewer,
    /// Change quotas, usage, switches and rules.
    Operator,
    /// Create and revoke tokens.
    Admin,
}

/// A token without its secret.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenView {
    id: String,
    name: String,
    role: RoleName,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// When it was last used, to about a minute.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub(super) struct NewToken {
    /// The whole token. It is shown only in this response.
    token: String,
    #[serde(flatten)]
    created: TokenView,
}

/// All tokens, including revoked ones.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenList {
    items: Vec<TokenView>,
}

/// Creates a token. It is shown only in this response.
#[utoipa::path(
    post, path = "/tokens", tag = TAG, request_body = TokenPost,
    responses(
        (status = 201, description = "The token", body = NewToken),
        (status = 422, description = "A field is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(admin): State<Admin>,
    caller: Caller,
    JsonBody(body): JsonBody<TokenPost>,
) -> ApiResult<Response> {
    if body.expires_at.is_some_and(|end| end <= caller.at) {
        return Err(Problem::field("expires_at", "must be in the future"));
    }
    let secret = Secret::generate().map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the system has no random bytes: {error}"))
    })?;
    let role = Role::from(body.role);
    let created = admin.control.create_token(caller.by(), &secret, body.name, role, body.expires_at).await?;
    let created = NewToken { token: secret.reveal(), created: TokenView::new(created) };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

/// Lists all tokens, without their secrets.
#[utoipa::path(
    get, path = "/tokens", tag = TAG,
    responses((status = 200, description = "The tokens", body = TokenList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> ApiResult<Json<TokenList>> {
    let tokens = admin.control.tokens().await?;
    Ok(Json(TokenList { items: tokens.into_iter().map(TokenView::new).collect() }))
}

/// Revokes a token on every node.
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = TAG,
    params(("id" = String, Path, description = "The ID of the token")),
    responses(
        (status = 204, description = "The token is revoked"),
        (status = 404, description = "No such token", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn revoke(
    State(admin): State<Admin>,
    caller: Caller,
    PathName(id): PathName,
) -> ApiResult<StatusCode> {
    admin.control.revoke_token(caller.by(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl TokenView {
    fn new(token: Token) -> Self {
        Self {
            id: token.id,
            name: token.name,
            role: token.role.into(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            last_used_at: token.last_used_at,
        }
    }
}

impl From<RoleName> for Role {
    fn from(role: RoleName) -> Self {
        match role {
            RoleName::Check => Self::Check,
            RoleName::Viewer => Self::Viewer,
            RoleName::Operator => Self::Operator,
            RoleName::Admin => Self::Admin,
        }
    }
}

impl From<Role> for RoleName {
    fn from(role: Role) -> Self {
        match role {
            Role::Check => Self::Check,
            Role::Viewer => Self::Viewer,
            Role::Operator => Self::Operator,
            Role::Admin => Self::Admin,
        }
    }
}
