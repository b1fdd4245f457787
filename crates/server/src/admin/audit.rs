//! `/admin/v1/audit`: the changes that were made, and by whom.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate_catalog::{AuditEntry, AuditFilter, Role};
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::ApiResult;
use super::guard::Caller;
use super::page::PageQuery;
use super::query::Parameters;
use crate::problem::Problem;

/// Which changes to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Changes by the token with this name.
    actor: Option<String>,
    /// Changes with this action, such as `put_tenant`.
    action: Option<String>,
    /// Changes to this kind of object: tenant, rules, switch, token or usage.
    kind: Option<String>,
    /// Changes to this tenant, domain, rule or token.
    object: Option<String>,
    /// Changes at or after this time.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// Changes before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// The maximum number of items; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of changes, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ChangeList {
    items: Vec<Change>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// One change.
#[derive(Serialize, ToSchema)]
struct Change {
    id: u64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The name of the token that made the change.
    actor: String,
    action: String,
    /// The kind of the changed object.
    kind: String,
    /// The name of the changed tenant, domain, rule or token.
    object: String,
    /// The object before the change; null if it did not exist.
    #[schema(value_type = Option<Object>)]
    before: Option<serde_json::Value>,
    /// The object after the change; null if it does not exist any more.
    #[schema(value_type = Option<Object>)]
    after: Option<serde_json::Value>,
    request_id: String,
}

/// Lists changes, newest first. Changes to tokens are shown to the role admin only.
#[utoipa::path(
    get, path = "/audit", tag = "audit", params(AuditQuery),
    responses(
        (status = 200, description = "A page of changes", body = ChangeList),
        (status = 422, description = "A parameter is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(admin): State<Admin>,
    caller: Caller,
    Parameters(query): Parameters<AuditQuery>,
) -> ApiResult<Json<ChangeList>> {
    let page = PageQuery::new(query.cursor, query.limit)?;
    let filter = AuditFilter {
        actor: query.actor,
        action: query.action,
        object_kind: query.kind,
        object: query.object,
        from: query.from,
        to: query.to,
        // As in the list of tokens, IDs, names and roles are only for those who may change them.
        except_kind: (!caller.holder.role.may(Role::Admin)).then(|| "token".to_owned()),
    };
    let found = admin.control.audit(&filter, &page).await?;
    let items = found.items.into_iter().map(Change::new).collect();
    Ok(Json(ChangeList { items, next_cursor: found.next }))
}

impl Change {
    fn new(entry: AuditEntry) -> Self {
        Self {
            id: entry.id,
            at: entry.at,
            actor: entry.actor,
            action: entry.action,
            kind: entry.object_kind,
            object: entry.object,
            before: entry.before,
            after: entry.after,
            request_id: entry.request_id,
        }
    }
}
