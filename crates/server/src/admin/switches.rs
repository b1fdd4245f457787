//! `/admin/v1/switches`: kill switches, of all rules and of single ones.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tidegate::Switch;
use utoipa::ToSchema;

use super::Admin;
use super::body::JsonBody;
use super::guard::Caller;
use super::name::PlainPath;
use super::precondition::{etag, precondition};
use super::problem::{Answer, Problem};

const TAG: &str = "switches";

/// What the switch of all rules is called.
const ALL: &str = "*";

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

/// How to switch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchPut {
    mode: Mode,
}

/// One switch.
#[derive(Serialize, ToSchema)]
pub(super) struct SwitchShown {
    /// The rule, or `*` for all.
    rule: String,
    mode: Mode,
}

/// All switches; a rule that is not among them does what it says.
#[derive(Serialize, ToSchema)]
pub(super) struct SwitchList {
    /// The switch of all rules.
    all: Mode,
    /// Those of single ones. What switches off more counts.
    rules: BTreeMap<String, Mode>,
}

/// All switches.
#[utoipa::path(
    get, path = "/switches", tag = TAG,
    responses((status = 200, description = "The switches", body = SwitchList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> Json<SwitchList> {
    let switches = admin.limiter.switches();
    let rules = switches.rules.into_iter().map(|(rule, mode)| (rule, mode.into())).collect();
    Json(SwitchList { all: switches.all.into(), rules })
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
    let switches = admin.limiter.switches();
    let mode =
        if rule == ALL { switches.all } else { switches.rules.get(&rule).copied().unwrap_or_default() };
    let revision = admin.control.switch_revision(&rule).await?;
    let shown = Json(SwitchShown { rule, mode: mode.into() });
    Ok(match revision {
        Some(revision) => (etag(revision), shown).into_response(),
        None => shown.into_response(),
    })
}

/// Switches a rule, or all, on every node.
#[utoipa::path(
    put, path = "/switches/{rule}", tag = TAG,
    params(
        ("rule" = String, Path, description = "The rule's name or path, percent-encoded; `*` for all rules"),
        ("If-Match" = Option<String>, Header, description = "The ETag that the switch must still have"),
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
    headers: HeaderMap,
    JsonBody(wanted): JsonBody<SwitchPut>,
) -> Answer<Response> {
    let precondition = precondition(&headers)?;
    known(&admin, &rule)?;
    let mode = wanted.mode.into();
    let revision = admin.control.set_switch(caller.by(), rule.clone(), mode, precondition).await?;
    Ok((etag(revision), Json(SwitchShown { rule, mode: wanted.mode })).into_response())
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
