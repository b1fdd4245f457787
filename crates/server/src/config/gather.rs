//! From the file, the environment and the flags to settings: the later of these wins.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::{Problem, Problems};

use super::kind::Value;
use super::origin::{Held, InForce, Origin};
use super::settings::Settings;
use super::table::{SETTINGS, Setting};
use super::{build, environment, file};

/// Read if nobody names a settings file and there is one of this name.
pub const USUAL_FILE: &str = "tidegate.yaml";

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The settings file, if there is one.
    pub file: Option<PathBuf>,
    /// The variables of the environment; those that do not begin with `TIDEGATE_` are left alone.
    pub environment: Vec<(OsString, OsString)>,
    /// Names of settings and the texts of their flags.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources {
    /// Those of this process. The file is `config`, else the one `TIDEGATE_CONFIG` names, else
    /// `tidegate.yaml` in the current folder if it is there.
    pub fn of_process(config: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> Self {
        let named = || env::var_os(environment::CONFIG).filter(|name| !name.is_empty()).map(PathBuf::from);
        let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists());
        let file = config.or_else(named).or_else(usual);
        Self { file, environment: env::vars_os().collect(), flags }
    }
}

/// Settles every setting: flag before environment before file before default.
///
/// # Errors
/// Everything that is wrong in any source, even where another one wins.
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
    values.be_compatible();
    let held = values.finish();
    for (setting, message) in build::contradictions(&held) {
        problems.push(at_origin(setting, message));
    }
    if problems.is_empty() { Ok(build::settings(held)) } else { Err(Problems(problems)) }
}

/// A problem at the place that a setting came from.
fn at_origin(held: &Held, message: String) -> Problem {
    environment::problem(&held.origin.to_string(), held.row.name, message)
}

struct Values {
    /// By index in the table.
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

    /// What `compat` implies, where nobody says otherwise.
    fn be_compatible(&mut self) {
        if let Some((Value::Word("envoy-ratelimit"), _)) = self.slot("compat") {
            let algorithm = (Value::Word("fixed_window"), Origin::Compat);
            self.slot("defaults.algorithm").get_or_insert(algorithm);
            self.slot("defaults.count_denied").get_or_insert((Value::Flag(true), Origin::Compat));
        }
    }

    fn finish(self) -> InForce {
        let held = SETTINGS.iter().zip(self.held).map(|(row, held)| {
            let (value, origin) = held.unwrap_or_else(|| (default(row), Origin::Default));
            Held { row, value, origin }
        });
        InForce(held.collect())
    }
}

/// A test reads every default.
fn default(row: &Setting) -> Value {
    row.kind.parse(row.default).unwrap_or_else(|message| unreachable!("default of {}: {message}", row.name))
}
