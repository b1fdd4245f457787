//! `/admin/v1/tokens`: who may ask.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate_catalog::{Role, Token};
use utoipa::ToSchema;

use super::Admin;
use super::body::JsonBody;
use super::guard::Caller;
use super::name::PlainPath;
use super::problem::{Answer, Problem};
use crate::access::Secret;

const TAG: &str = "tokens";

/// A token to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenPost {
    /// What it is for; the audit trail names it.
    #[schema(max_length = 256, example = "billing")]
    name: String,
    role: RoleName,
    /// When it ends; never where absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// What a token may do. Each may do what those before it may.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum RoleName {
    /// Ask for decisions, where `http.tokens` wants a token for that.
    Check,
    /// Look at everything but tokens.
    Viewer,
    /// Change quotas, usage, switches and rules.
    Operator,
    /// Make and revoke tokens, too.
    Admin,
}

/// A token without its secret.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenShown {
    id: String,
    name: String,
    role: RoleName,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// To about a minute.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenMade {
    /// The whole token. It is shown this once.
    token: String,
    #[serde(flatten)]
    made: TokenShown,
}

/// Every token, revoked ones too.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenList {
    items: Vec<TokenShown>,
}

/// Makes a token. The answer is the only place where it is shown whole.
#[utoipa::path(
    post, path = "/tokens", tag = TAG, request_body = TokenPost,
    responses(
        (status = 201, description = "The token", body = TokenMade),
        (status = 422, description = "A field makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(admin): State<Admin>,
    caller: Caller,
    JsonBody(wanted): JsonBody<TokenPost>,
) -> Answer<Response> {
    if wanted.expires_at.is_some_and(|end| end <= caller.at) {
        return Err(Problem::field("expires_at", "must be in the future"));
    }
    let secret = Secret::generate().map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("no random bytes: {error}"))
    })?;
    let role = Role::from(wanted.role);
    let made = admin.control.create_token(caller.by(), &secret, wanted.name, role, wanted.expires_at).await?;
    let made = TokenMade { token: secret.reveal(), made: TokenShown::new(made) };
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Every token, without its secret.
#[utoipa::path(
    get, path = "/tokens", tag = TAG,
    responses((status = 200, description = "The tokens", body = TokenList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> Answer<Json<TokenList>> {
    let tokens = admin.control.tokens().await?;
    Ok(Json(TokenList { items: tokens.into_iter().map(TokenShown::new).collect() }))
}

/// Revokes a token: it counts no more, on any node.
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = TAG,
    params(("id" = String, Path, description = "The token's id")),
    responses(
        (status = 204, description = "It counts no more"),
        (status = 404, description = "No such token", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn revoke(
    State(admin): State<Admin>,
    caller: Caller,
    PlainPath(id): PlainPath,
) -> Answer<StatusCode> {
    admin.control.revoke_token(caller.by(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl TokenShown {
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
