//! Collects settings from the file, the environment and the flags. The later of these takes precedence.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::{Problem, Problems};

use super::kind::Value;
use super::origin::{EffectiveSetting, EffectiveSettings, Origin};
use super::settings::Settings;
use super::table::{SETTINGS, Setting};
use super::{build, environment, file};

/// The settings file that is read if none is named and this one exists.
pub const DEFAULT_FILE: &str = "tidegate.yaml";

/// The sources of settings.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The settings file, if there is one.
    pub file: Option<PathBuf>,
    /// The variables of the environment; those that do not begin with `TIDEGATE_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// The names of settings, with the texts of their flags.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources {
    /// Returns the sources of this process. The file is `config`, else the one that `TIDEGATE_CONFIG` names, else
    /// `tidegate.yaml` in the current folder if it exists.
    pub fn of_process(config: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> Self {
        let named = || env::var_os(environment::CONFIG).filter(|name| !name.is_empty()).map(PathBuf::from);
        let default = || Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists());
        let file = config.or_else(named).or_else(default);
        Self { file, environment: env::vars_os().collect(), flags }
    }
}

/// Loads every setting: from its flag, else the environment, else the file, else its default.
///
/// # Errors
/// Every mistake in any source, even if another source takes precedence.
pub fn load(sources: &Sources) -> Result<Settings, Problems> {
    let mut problems = Vec::new();
    let mut values = Values { held: SETTINGS.iter().map(|_| None).collect() };
    if let Some(path) = &sources.file {
        values.take_file(path, &mut problems);
    }
    let mut wrong = Vec::new();
    for given in environment::read(&sources.environment, &mut wrong) {
        let fault = |message| environment::problem(&given.variable, given.row.name, message);
        let value = given.row.kind.parse(&given.text);
        values.take(given.row, value, Origin::Environment(given.variable.clone()), fault, &mut wrong);
    }
    problems.append(&mut wrong);
    for (name, text) in &sources.flags {
        let Some((row, flag)) = Setting::find(name).and_then(|row| Some((row, row.flag?.name))) else {
            continue;
        };
        let fault = |message| environment::problem(&format!("--{flag}"), row.name, message);
        values.take(row, row.kind.parse(text), Origin::Flag(flag), fault, &mut problems);
    }
    values.apply_compat();
    let held = values.finish();
    for (setting, message) in build::contradictions(&held) {
        problems.push(at_origin(setting, message));
    }
    if problems.is_empty() { Ok(build::settings(held)) } else { Err(Problems(problems)) }
}

/// Returns a problem that names the origin of a setting.
fn at_origin(held: &EffectiveSetting, message: String) -> Problem {
    environment::problem(&held.origin.to_string(), held.row.name, message)
}

struct Values {
    /// Values by their index in the table.
    held: Vec<Option<(Value, Origin)>>,
}

impl Values {
    fn take_file(&mut self, path: &Path, problems: &mut Vec<Problem>) {
        let name: Arc<str> = path.display().to_string().into();
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut wrong = Vec::new();
        for given in file::read(path, &mut wrong) {
            let origin = Origin::File { file: Arc::clone(&name), line: given.place.line };
            let place = Some(given.place);
            let fault = |message| Problem {
                file: name.to_string(),
                place,
                field: given.row.name.to_owned(),
                message,
            };
            let value = given.row.kind.parse(&given.text).map(|value| value.within(folder));
            self.take(given.row, value, origin, fault, &mut wrong);
        }
        wrong.sort_by_key(|problem| problem.place);
        problems.append(&mut wrong);
    }

    fn take(
        &mut self,
        row: &'static Setting,
        value: Result<Value, String>,
        origin: Origin,
        fault: impl FnOnce(String) -> Problem,
        problems: &mut Vec<Problem>,
    ) {
        match value {
            Ok(value) => *self.slot(row.name) = Some((value, origin)),
            Err(message) => problems.push(fault(message)),
        }
    }

    fn slot(&mut self, name: &str) -> &mut Option<(Value, Origin)> {
        let index = SETTINGS.iter().position(|row| row.name == name);
        &mut self.held[index.unwrap_or_else(|| unreachable!("{name} is not in the table"))]
    }

    /// Sets what `compat` implies, unless it is set.
    fn apply_compat(&mut self) {
        if let Some((Value::Word("envoy-ratelimit"), _)) = self.slot("compat") {
            let algorithm = (Value::Word("fixed_window"), Origin::Compat);
            self.slot("defaults.algorithm").get_or_insert(algorithm);
            self.slot("defaults.count_denied").get_or_insert((Value::Flag(true), Origin::Compat));
            self.slot("metrics.envoy_names").get_or_insert((Value::Flag(true), Origin::Compat));
        }
    }

    fn finish(self) -> EffectiveSettings {
        let held = SETTINGS.iter().zip(self.held).map(|(row, held)| {
            let (value, origin) = held.unwrap_or_else(|| (default(row), Origin::Default));
            EffectiveSetting { row, value, origin }
        });
        EffectiveSettings(held.collect())
    }
}

/// Parses the default of a setting. A test parses all of them.
fn default(row: &Setting) -> Value {
    row.kind.parse(row.default).unwrap_or_else(|message| unreachable!("default of {}: {message}", row.name))
}
