//! `/admin/v1/switches`: kill switches, of all rules and of single ones.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate::Switch;
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::body::JsonBody;
use super::guard::Caller;
use super::name::PlainPath;
use super::precondition::{etag, precondition};
use super::problem::{Answer, Problem};
use super::query::Parameters;
use crate::control::ALL;
use crate::control::switches::{SwitchOrigin, SwitchState};

const TAG: &str = "switches";

/// What becomes of rules.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// They do what they say.
    Enforce,
    /// They are evaluated and counted, and deny nobody.
    Shadow,
    /// Nobody looks at them.
    Off,
}

/// Where a switch comes from.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Origin {
    /// The settings of this node: `enforcement` or `switches`.
    Settings,
    /// The catalog: it acts on all nodes.
    Catalog,
    /// This node alone, until the catalog has its say again.
    Node,
}

/// How to switch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchPut {
    mode: Mode,
}

/// On how many nodes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Reach {
    /// On this node alone, without the catalog: for when its database is away. Whatever the catalog says
    /// replaces it once the catalog answers again.
    #[serde(default)]
    local: bool,
}

/// One switch.
#[derive(Serialize, ToSchema)]
pub(super) struct SwitchShown {
    /// The rule, or `*` for all.
    rule: String,
    /// What is in force on this node.
    mode: Mode,
    /// Whose word that is; null where no switch is set.
    from: Option<Origin>,
    /// What else there is to know, such as why what was put is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// All switches; a rule that is not among them does what it says.
#[derive(Serialize, ToSchema)]
pub(super) struct SwitchList {
    /// The switch of all rules.
    all: Mode,
    /// Those of single ones. What switches off more counts.
    rules: BTreeMap<String, Mode>,
    /// Whose word each of them is, by rule, `*` for all.
    from: BTreeMap<String, Origin>,
}

/// All switches.
#[utoipa::path(
    get, path = "/switches", tag = TAG,
    responses((status = 200, description = "The switches", body = SwitchList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> Json<SwitchList> {
    let switches = admin.limiter.switches();
    let rules = switches.rules.into_iter().map(|(rule, mode)| (rule, mode.into())).collect();
    let states = admin.control.health().switches();
    let from = states.into_iter().map(|state| (state.rule, state.from.into())).collect();
    Json(SwitchList { all: switches.all.into(), rules, from })
}

/// The switch of a rule, or of all.
#[utoipa::path(
    get, path = "/switches/{rule}", tag = TAG,
    params(("rule" = String, Path, description = "The rule's name or path, percent-encoded; `*` for all rules")),
    responses(
        (status = 200, description = "The switch", body = SwitchShown),
        (status = 404, description = "No such rule", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(State(admin): State<Admin>, PlainPath(rule): PlainPath) -> Answer<Response> {
    known(&admin, &rule)?;
    let revision = admin.control.switch_revision(&rule).await?;
    let shown = Json(SwitchShown::new(&admin, rule, None));
    Ok(match revision {
        Some(revision) => (etag(revision), shown).into_response(),
        None => shown.into_response(),
    })
}

/// Switches a rule, or all, on every node; on this one alone with `local`.
#[utoipa::path(
    put, path = "/switches/{rule}", tag = TAG,
    params(
        ("rule" = String, Path, description = "The rule's name or path, percent-encoded; `*` for all rules"),
        ("If-Match" = Option<String>, Header, description = "The ETag that the switch must still have"),
        Reach,
    ),
    request_body = SwitchPut,
    responses(
        (status = 200, description = "The switch", body = SwitchShown),
        (status = 412, description = "Somebody else was first", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such rule", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(admin): State<Admin>,
    caller: Caller,
    PlainPath(rule): PlainPath,
    Parameters(reach): Parameters<Reach>,
    headers: HeaderMap,
    JsonBody(wanted): JsonBody<SwitchPut>,
) -> Answer<Response> {
    let precondition = precondition(&headers)?;
    known(&admin, &rule)?;
    let mode = wanted.mode.into();
    if reach.local {
        admin.control.set_local_switch(caller.by(), rule.clone(), Some(mode)).await?;
        return Ok(Json(SwitchShown::new(&admin, rule, Some(mode))).into_response());
    }
    let revision = admin.control.set_switch(caller.by(), rule.clone(), mode, precondition).await?;
    Ok((etag(revision), Json(SwitchShown::new(&admin, rule, Some(mode)))).into_response())
}

/// Removes the switch of a rule, or of all, on every node; that of this node alone with `local`. The rule may be
/// one that there is no more.
#[utoipa::path(
    delete, path = "/switches/{rule}", tag = TAG,
    params(
        ("rule" = String, Path, description = "The rule's name or path, percent-encoded; `*` for all rules"),
        ("If-Match" = Option<String>, Header, description = "The ETag that the switch must still have"),
        Reach,
    ),
    responses(
        (status = 204, description = "It is not set any more"),
        (status = 404, description = "No such switch is set", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "Somebody else was first", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn unset(
    State(admin): State<Admin>,
    caller: Caller,
    PlainPath(rule): PlainPath,
    Parameters(reach): Parameters<Reach>,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    let precondition = precondition(&headers)?;
    if !reach.local {
        admin.control.unset_switch(caller.by(), rule, precondition).await?;
    } else if !admin.control.set_local_switch(caller.by(), rule.clone(), None).await? {
        return Err(Problem::not_found(format!("no switch of {rule:?} is set on this node alone")));
    }
    Ok(StatusCode::NO_CONTENT)
}

fn known(admin: &Admin, rule: &str) -> Answer<()> {
    let has = |id: &str| {
        admin.limiter.listing().iter().flat_map(|domain| &domain.rules).any(|rule| rule.rule == id)
    };
    if rule == ALL || has(rule) {
        return Ok(());
    }
    Err(Problem::not_found(format!("no rule is called {rule:?}; GET /admin/v1/rules lists them")))
}

impl SwitchShown {
    /// The switch of a rule as it is in force, after `wanted` was put.
    fn new(admin: &Admin, rule: String, wanted: Option<Switch>) -> Self {
        let states = admin.control.health().switches();
        let state = states.into_iter().find(|state| state.rule == rule);
        let note = state.as_ref().and_then(|state| note(state, wanted));
        let mode = state.as_ref().map_or(Switch::Enforce, |state| state.mode);
        Self { rule, mode: mode.into(), from: state.map(|state| state.from.into()), note }
    }
}

fn note(state: &SwitchState, wanted: Option<Switch>) -> Option<String> {
    let mode = state.mode;
    match (state.from, wanted) {
        (SwitchOrigin::Settings, Some(wanted)) if wanted != mode => Some(format!(
            "the settings of this node say {mode}, which goes before {wanted}: what switches off more counts; \
             change `enforcement` or `switches` there"
        )),
        (SwitchOrigin::Node, Some(wanted)) if wanted != mode => Some(format!(
            "{mode} is set on this node alone, and goes before {wanted} here; unset it with local"
        )),
        (SwitchOrigin::Node, _) => Some(
            "on this node alone, until the catalog answers again after an outage, or says otherwise"
                .to_owned(),
        ),
        _ => None,
    }
}

impl From<SwitchOrigin> for Origin {
    fn from(origin: SwitchOrigin) -> Self {
        match origin {
            SwitchOrigin::Settings => Self::Settings,
            SwitchOrigin::Catalog => Self::Catalog,
            SwitchOrigin::Node => Self::Node,
        }
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
