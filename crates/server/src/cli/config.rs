//! `tidegate config`

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::admin::table::Table;
use super::flags::SettingFlags;
use super::{EXIT_CODES, out};
use crate::config::kind::Value;
use crate::config::{EffectiveSetting, Settings};

const EXAMPLES: &str = "\
Examples:
  tidegate config                                   the settings that `tidegate serve` would use here
  tidegate config --config staging.yaml --http off  the settings with these flags
  tidegate config --json | jq -r '.\"grpc.listen\".value'
  tidegate config | grep -v default$                only the settings that are not defaults";

/// Show every setting with its value and origin.
///
/// Accepts the flags of `tidegate serve`, reads the same file and environment, and checks them, without starting the
/// service. The origin of a value is a flag, a variable, a line of the settings file, `compat`, or `default`.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Config {
    #[command(flatten)]
    settings: SettingFlags,
    /// Print JSON: setting, value, default and origin.
    #[arg(long)]
    json: bool,
}

impl Config {
    pub(super) fn run(self) -> ExitCode {
        let settings = match self.settings.settings() {
            Ok(settings) => settings,
            Err(problems) => return out::fail(problems),
        };
        if self.json {
            out::print_json(&as_json(&settings));
        } else {
            out::print(&as_text(&settings));
        }
        ExitCode::SUCCESS
    }
}

fn as_text(settings: &Settings) -> String {
    let mut table = Table::new(&["setting", "value", "origin"]);
    for held in settings.in_force() {
        table.row(vec![held.row.name.to_owned(), held.value.to_string(), held.origin.to_string()]);
    }
    table.render(true)
}

/// Returns the settings as JSON: flags and numbers as such, everything else as in the settings file.
fn as_json(settings: &Settings) -> Map<String, Json> {
    let plain = |value: &Value| match value {
        Value::Flag(flag) => json!(flag),
        Value::Whole(number) => json!(number),
        Value::OptionalPath(None) | Value::Url(None) => Json::Null,
        other => json!(other.to_string()),
    };
    let member = |held: &EffectiveSetting| {
        let default = held.row.kind.parse(held.row.default);
        let default = default.as_ref().map_or(Json::Null, plain);
        let about =
            json!({ "value": plain(&held.value), "default": default, "origin": held.origin.to_string() });
        (held.row.name.to_owned(), about)
    };
    settings.in_force().iter().map(member).collect()
}
