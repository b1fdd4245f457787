//! `/admin/v1/audit`: who changed what.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidegate_catalog::{AuditEntry, AuditFilter, Role};
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::guard::Caller;
use super::page::PageQuery;
use super::problem::{Answer, Problem};
use super::query::Parameters;

/// Which changes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Those by this token's name.
    actor: Option<String>,
    /// Those of this kind, such as `put_tenant`.
    action: Option<String>,
    /// Those of this kind of thing: tenant, rules, switch, token or usage.
    kind: Option<String>,
    /// Those of this tenant, domain, rule or token.
    object: Option<String>,
    /// Not before then.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// Before then.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
    /// Where the page before said that the next begins.
    cursor: Option<String>,
    /// How many at most; 100 where absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of changes, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ChangeList {
    items: Vec<Change>,
    /// Where the next page begins, if there is one.
    next_cursor: Option<String>,
}

/// One change.
#[derive(Serialize, ToSchema)]
struct Change {
    id: u64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The name of the token.
    actor: String,
    action: String,
    /// What kind of thing it was done to.
    kind: String,
    /// The tenant, domain, rule or token.
    object: String,
    /// As it was; null where there was nothing.
    #[schema(value_type = Option<Object>)]
    before: Option<serde_json::Value>,
    /// As it is; null where there is nothing.
    #[schema(value_type = Option<Object>)]
    after: Option<serde_json::Value>,
    request_id: String,
}

/// Who changed what, newest first. What was done to tokens is shown to administrators only.
#[utoipa::path(
    get, path = "/audit", tag = "audit", params(Wanted),
    responses(
        (status = 200, description = "A page of changes", body = ChangeList),
        (status = 422, description = "A parameter makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(admin): State<Admin>,
    caller: Caller,
    Parameters(wanted): Parameters<Wanted>,
) -> Answer<Json<ChangeList>> {
    let page = PageQuery::new(wanted.cursor, wanted.limit)?;
    let filter = AuditFilter {
        actor: wanted.actor,
        action: wanted.action,
        object_kind: wanted.kind,
        object: wanted.object,
        from: wanted.from,
        to: wanted.to,
        // As the list of tokens: ids, names and roles are for those who may change them.
        except_kind: (!caller.who.role.may(Role::Admin)).then(|| "token".to_owned()),
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
