//! `/admin/v1/switches`: kill switches, of all rules and of single ones.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use tidegate::Switch;

use super::Admin;

/// How to switch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    mode: Switch,
}

pub(super) async fn list(State(admin): State<Admin>) -> Response {
    Json(admin.limiter.switches()).into_response()
}

pub(super) async fn set_all(State(admin): State<Admin>, Json(wanted): Json<Wanted>) -> Response {
    set(&admin, None, wanted.mode)
}

pub(super) async fn set_rule(
    State(admin): State<Admin>,
    Path(rule): Path<String>,
    Json(wanted): Json<Wanted>,
) -> Response {
    set(&admin, Some(&rule), wanted.mode)
}

fn set(admin: &Admin, rule: Option<&str>, mode: Switch) -> Response {
    match admin.limiter.switch(rule, mode) {
        Ok(()) => Json(admin.limiter.switches()).into_response(),
        Err(error) => (StatusCode::NOT_FOUND, format!("{error}\n")).into_response(),
    }
}
