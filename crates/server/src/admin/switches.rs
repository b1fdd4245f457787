//! `/admin/v1/switches`: kill switches of all rules and of single rules.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate::Switch;
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::ApiResult;
use super::body::JsonBody;
use super::guard::Caller;
use super::name::PathName;
use super::precondition::{etag, precondition};
use super::query::Parameters;
use crate::control::ALL;
use crate::control::switches::{SwitchOrigin, SwitchState};
use crate::problem::Problem;

const TAG: &str = "switches";

/// What a switch does with rules.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// They are enforced.
    Enforce,
    /// They are evaluated and counted, and deny nothing.
    Shadow,
    /// They are ignored.
    Off,
}

/// The mode to set.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchPut {
    mode: Mode,
}

/// The nodes that a switch is set on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SwitchScope {
    /// Whether it is set on this node alone, without the catalog, for use while its database is unreachable. The catalog
    /// replaces it once it is reachable again.
    #[serde(default)]
    local: bool,
}

/// One switch.
#[derive(Serialize, ToSchema)]
pub(super) struct SwitchView {
    /// The rule, or `*` for all.
    rule: String,
    /// The mode in force on this node.
    mode: Mode,
    /// The origin of that mode; null if no switch is set.
    from: Option<SwitchOrigin>,
    /// A remark, such as why another mode than the one set is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// All switches. A rule that is not listed is enforced.
#[derive(Serialize, ToSchema)]
pub(super) struct SwitchList {
    /// The switch of all rules.
    all: Mode,
    /// The switches of single rules. Of two, the one that switches off more applies.
    rules: BTreeMap<String, Mode>,
    /// The origin of each switch, by rule; `*` is the switch of all rules.
    from: BTreeMap<String, SwitchOrigin>,
}

/// Lists all switches.
#[utoipa::path(
    get, path = "/switches", tag = TAG,
    responses((status = 200, description = "The switches", body = SwitchList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> Json<SwitchList> {
    let switches = admin.limiter.switches();
    let rules = switches.rules.into_iter().map(|(rule, mode)| (rule, mode.into())).collect();
    let states = admin.control.health().switches();
    let from = states.into_iter().map(|state| (state.rule, state.from)).collect();
    Json(SwitchList { all: switches.all.into(), rules, from })
}

/// Returns the switch of a rule, or of all rules.
#[utoipa::path(
    get, path = "/switches/{rule}", tag = TAG,
    params(("rule" = String, Path, description = "The rule's name or path, percent-encoded; `*` for all rules")),
    responses(
        (status = 200, description = "The switch", body = SwitchView),
        (status = 404, description = "No such rule", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(State(admin): State<Admin>, PathName(rule): PathName) -> ApiResult<Response> {
    check_rule(&admin, &rule)?;
    let revision = admin.control.switch_revision(&rule).await?;
    let shown = Json(SwitchView::new(&admin, rule, None));
    Ok(match revision {
        Some(revision) => (etag(revision), shown).into_response(),
        None => shown.into_response(),
    })
}

/// Sets the switch of a rule, or of all rules, on every node; with `local`, on this node alone.
#[utoipa::path(
    put, path = "/switches/{rule}", tag = TAG,
    params(
        ("rule" = String, Path, description = "The rule's name or path, percent-encoded; `*` for all rules"),
        ("If-Match" = Option<String>, Header, description = "Change it only if the switch still has this ETag"),
        SwitchScope,
    ),
    request_body = SwitchPut,
    responses(
        (status = 200, description = "The switch", body = SwitchView),
        (status = 412, description = "It was changed in the meantime", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such rule", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(admin): State<Admin>,
    caller: Caller,
    PathName(rule): PathName,
    Parameters(scope): Parameters<SwitchScope>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<SwitchPut>,
) -> ApiResult<Response> {
    let precondition = precondition(&headers)?;
    check_rule(&admin, &rule)?;
    let mode = body.mode.into();
    if scope.local {
        admin.control.set_local_switch(caller.by(), rule.clone(), Some(mode)).await?;
        return Ok(Json(SwitchView::new(&admin, rule, Some(mode))).into_response());
    }
    let revision = admin.control.set_switch(caller.by(), rule.clone(), mode, precondition).await?;
    Ok((etag(revision), Json(SwitchView::new(&admin, rule, Some(mode)))).into_response())
}

/// Removes the switch of a rule, or of all rules, on every node; with `local`, the one of this node alone. The rule need
/// not exist any more.
#[utoipa::path(
    delete, path = "/switches/{rule}", tag = TAG,
    params(
        ("rule" = String, Path, description = "The rule's name or path, percent-encoded; `*` for all rules"),
        ("If-Match" = Option<String>, Header, description = "Change it only if the switch still has this ETag"),
        SwitchScope,
    ),
    responses(
        (status = 204, description = "The switch is removed"),
        (status = 404, description = "No such switch is set", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "It was changed in the meantime", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn unset(
    State(admin): State<Admin>,
    caller: Caller,
    PathName(rule): PathName,
    Parameters(scope): Parameters<SwitchScope>,
    headers: HeaderMap,
) -> ApiResult<StatusCode> {
    let precondition = precondition(&headers)?;
    if !scope.local {
        admin.control.unset_switch(caller.by(), rule, precondition).await?;
    } else if !admin.control.set_local_switch(caller.by(), rule.clone(), None).await? {
        return Err(Problem::not_found(format!("no switch of {rule:?} is set on this node alone")));
    }
    Ok(StatusCode::NO_CONTENT)
}

fn check_rule(admin: &Admin, rule: &str) -> ApiResult<()> {
    let has = |id: &str| {
        admin.limiter.listing().iter().flat_map(|domain| &domain.rules).any(|rule| rule.rule == id)
    };
    if rule == ALL || has(rule) {
        return Ok(());
    }
    Err(Problem::not_found(format!("there is no rule {rule:?}; GET /admin/v1/rules lists the rules")))
}

impl SwitchView {
    /// Returns the switch of a rule that is in force, after `set` was set.
    fn new(admin: &Admin, rule: String, set: Option<Switch>) -> Self {
        let states = admin.control.health().switches();
        let state = states.into_iter().find(|state| state.rule == rule);
        let note = state.as_ref().and_then(|state| note(state, set));
        let mode = state.as_ref().map_or(Switch::Enforce, |state| state.mode);
        Self { rule, mode: mode.into(), from: state.map(|state| state.from), note }
    }
}

fn note(state: &SwitchState, set: Option<Switch>) -> Option<String> {
    let mode = state.mode;
    match (state.from, set) {
        (SwitchOrigin::Settings, Some(set)) if set != mode => Some(format!(
            "the settings of this node say {mode}, which takes precedence over {set}: of two switches, the one that \
             switches off more applies; change `enforcement` or `switches` in the settings"
        )),
        (SwitchOrigin::Node, Some(set)) if set != mode => Some(format!(
            "{mode} is set on this node alone, and takes precedence over {set} here; unset it with local"
        )),
        (SwitchOrigin::Node, _) => {
            Some("on this node alone, until the catalog is reachable again or changes it".to_owned())
        }
        _ => None,
    }
}

impl From<Switch> for Mode {
    fn from(switch: Switch) -> Self {
        match switch {
            Switch::Enforce => Self::Enforce,
            Switch::Shadow => Self::Shadow,
            Switch::Off => Self::Off,
        }
    }
}

impl From<Mode> for Switch {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Enforce => Self::Enforce,
            Mode::Shadow => Self::Shadow,
            Mode::Off => Self::Off,
        }
    }
}
