//! The environment: `grpc.listen` is `TIDEGATE_GRPC__LISTEN`.

use std::ffi::OsString;

use tidegate::Problem;
use tidegate::rules::file::words;

use super::table::{SETTINGS, Setting};

const PREFIX: &str = "TIDEGATE_";

/// Names the settings file; a flag, not a setting, for a file cannot say where it is itself.
pub(super) const CONFIG: &str = "TIDEGATE_CONFIG";

/// What commands over the admin API, the SDKs, applications and tests take from the environment; no settings of
/// the service.
const CLIENT: [&str; 10] = [
    "TIDEGATE_ADMIN",
    "TIDEGATE_CONTEXT",
    "TIDEGATE_TOKEN",
    "TIDEGATE_TOKEN_FILE",
    "TIDEGATE_CA",
    "TIDEGATE_CERT",
    "TIDEGATE_KEY",
    "TIDEGATE_URL",
    "TIDEGATE_FALLBACK",
    "TIDEGATE_BIN",
];

/// The variable of a setting.
pub fn variable(setting: &str) -> String {
    format!("{PREFIX}{}", setting.replace('.', "__").to_ascii_uppercase())
}

/// A setting that the environment has a text for.
pub(super) struct Given {
    pub(super) row: &'static Setting,
    pub(super) variable: String,
    pub(super) text: String,
}

/// What the environment says, and the variables that mean nothing.
pub(super) fn read(all: &[(OsString, OsString)], problems: &mut Vec<Problem>) -> Vec<Given> {
    let mut given = Vec::new();
    for (name, value) in all {
        let setting = |name: &&str| name.starts_with(PREFIX) && *name != CONFIG && !CLIENT.contains(name);
        let Some(name) = name.to_str().filter(setting) else { continue };
        let row = SETTINGS.iter().find(|row| variable(row.name) == name);
        match (row, value.to_str()) {
            (Some(row), Some(text)) => {
                given.push(Given { row, variable: name.to_owned(), text: text.to_owned() });
            }
            (Some(row), None) => problems.push(problem(name, row.name, "is not UTF-8".to_owned())),
            (None, _) if is_service_link(name) => {}
            (None, _) => {
                let known: Vec<String> = SETTINGS.iter().map(|row| variable(row.name)).collect();
                let meant = words::did_you_mean(name, known.iter().map(String::as_str));
                let remedy =
                    if meant.is_empty() { "; `tidegate config` lists them all, or unset it" } else { &meant };
                problems.push(problem(name, "", format!("unknown setting{remedy}")));
            }
        }
    }
    // The order of an environment means nothing, and messages should not vary.
    problems.sort_by(|one, two| one.file.cmp(&two.file));
    given
}

pub(super) fn problem(variable: &str, setting: &str, message: String) -> Problem {
    Problem { file: variable.to_owned(), place: None, field: setting.to_owned(), message }
}

/// Kubernetes tells every pod about every service of its namespace: one called `tidegate` or
/// `tidegate-grpc` brings `TIDEGATE_PORT`, `TIDEGATE_SERVICE_HOST`, `TIDEGATE_GRPC_PORT_8081_TCP` and
/// more of the kind, which nobody wrote.
fn is_service_link(name: &str) -> bool {
    let last = |marker: &str| name.rfind(marker).map(|at| &name[at + marker.len()..]);
    let protocol = |rest: &str| {
        let mut parts = rest.split('_');
        let number = parts.next().is_some_and(|port| port.parse::<u16>().is_ok());
        let protocol = parts.next().is_some_and(|word| matches!(word, "TCP" | "UDP" | "SCTP"));
        let detail = parts.next().is_none_or(|word| matches!(word, "PORT" | "PROTO" | "ADDR"));
        number && protocol && detail && parts.next().is_none()
    };
    !name.contains("__")
        && (name.ends_with("_SERVICE_HOST")
            || name.ends_with("_PORT")
            || last("_SERVICE_PORT").is_some_and(|rest| rest.starts_with('_'))
            || name.match_indices("_PORT_").any(|(at, marker)| protocol(&name[at + marker.len()..])))
}
