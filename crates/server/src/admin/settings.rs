//! `/admin/v1/settings`: the settings in force, and the origin of each.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Admin;
use crate::config::kind::Kind;
use crate::config::origin::{EffectiveSetting, Origin};

/// The settings in force.
#[derive(Serialize, ToSchema)]
pub(super) struct SettingList {
    settings: Vec<SettingView>,
}

/// A setting in force.
#[derive(Serialize, ToSchema)]
struct SettingView {
    name: &'static str,
    /// The value; `***` for a secret. Passwords in addresses are not shown.
    value: String,
    /// `default`, `compat`, `file tidegate.yaml:3`, `environment TIDEGATE_X` or `flag --x`.
    from: String,
    secret: bool,
}

/// Lists the settings in force, and where each came from.
#[utoipa::path(
    get, path = "/settings", tag = "settings",
    responses((status = 200, description = "The settings", body = SettingList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> Json<SettingList> {
    let view = |held: &EffectiveSetting| SettingView {
        name: held.row.name,
        value: held.value.to_string(),
        from: match &held.origin {
            origin @ (Origin::Default | Origin::Compat) => origin.to_string(),
            origin @ Origin::File { .. } => format!("file {origin}"),
            origin @ Origin::Environment(_) => format!("environment {origin}"),
            origin @ Origin::Flag(_) => format!("flag {origin}"),
        },
        secret: matches!(held.row.kind, Kind::Secret),
    };
    Json(SettingList { settings: admin.settings.in_force().iter().map(view).collect() })
}
