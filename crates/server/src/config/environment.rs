//! Settings in environment variables: `grpc.listen` is `TIDEGATE_GRPC__LISTEN`.

use std::ffi::OsString;

use tidegate::Problem;
use tidegate::rules::file::words;

use super::table::{SETTINGS, Setting};

const PREFIX: &str = "TIDEGATE_";

/// Names the settings file. It is not a setting, because a file cannot name itself.
pub(super) const CONFIG: &str = "TIDEGATE_CONFIG";

/// Variables of the commands over the admin API, the SDKs, applications and tests, which are not settings of the service.
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

/// Returns the variable of a setting.
pub fn variable(setting: &str) -> String {
    format!("{PREFIX}{}", setting.replace('.', "__").to_ascii_uppercase())
}

/// The text of a setting in the environment.
pub(super) struct GivenText {
    pub(super) row: &'static Setting,
    pub(super) variable: String,
    pub(super) text: String,
}

/// Returns the settings in the environment, and adds a problem for every unknown variable.
pub(super) fn read(all: &[(OsString, OsString)], problems: &mut Vec<Problem>) -> Vec<GivenText> {
    let mut given = Vec::new();
    for (name, value) in all {
        let setting = |name: &&str| name.starts_with(PREFIX) && *name != CONFIG && !CLIENT.contains(name);
        let Some(name) = name.to_str().filter(setting) else { continue };
        let row = SETTINGS.iter().find(|row| variable(row.name) == name);
        match (row, value.to_str()) {
            (Some(row), Some(text)) => {
                given.push(GivenText { row, variable: name.to_owned(), text: text.to_owned() });
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
    // The order of an environment is arbitrary, and messages should not vary.
    problems.sort_by(|one, two| one.file.cmp(&two.file));
    given
}

pub(super) fn problem(variable: &str, setting: &str, message: String) -> Problem {
    Problem { file: variable.to_owned(), place: None, field: setting.to_owned(), message }
}

/// Returns whether Kubernetes set a variable. It sets some for every service of the namespace in every pod: for a service
/// `tidegate` or `tidegate-grpc` these are `TIDEGATE_PORT`, `TIDEGATE_SERVICE_HOST`, `TIDEGATE_GRPC_PORT_8081_TCP` and
/// similar.
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
