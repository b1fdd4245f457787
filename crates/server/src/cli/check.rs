//! `tidegate check`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tidegate::rules::file::load_path;
use tidegate::{BuildError, Builder, Defaults, Finding, Limiter, Problem, Problems, Severity, lint};

use super::flags::ConfigFlag;
use super::{EXIT_CODES, out};

const EXAMPLES: &str = "\
Examples:
  tidegate check rules                 a folder of rule files
  tidegate check rules/api.yaml --strict
  tidegate check --json | jq '.findings[] | select(.severity == \"warning\")'";

const KINDS: &str = "\
Findings:
  unreachable_rule   error    no request ever matches the rule: a pattern before it matches all
  spoofable_key      warning  the value of the key is a header that any client can send
  unbounded_key      warning  a counter for every value that a client invents
  unbounded_metric   warning  a metric series for each of too many values
  never_denies       warning  a limit that cannot be reached, or that another one always precedes
  empty_rule         warning  a rule without limits and without nested rules
  name_twice         warning  two rules that metrics cannot distinguish
  replaces_nothing   warning  `replaces` of a limit that does not exist
  concurrency_only   note     taken by acquire and release, not by checks
  small_estimate     note     a sliding_window of up to 10 requests, where sliding_log is exact";

/// Find mistakes and probable mistakes in rules.
///
/// Loads a rule file or a folder as `tidegate serve` would, with the same settings, and prints all mistakes at once. If the
/// rules load, it also prints probable mistakes: rules that are never reached, keys that clients can forge, limits that
/// never deny.
///
/// Exits with 1 for errors; with --strict also for warnings; never for notes.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{KINDS}\n\n{EXIT_CODES}"))]
pub(super) struct Check {
    /// The rule file or folder [default: the setting `rules`]
    #[arg(value_name = "PATH")]
    rules: Option<PathBuf>,
    /// Also exit with 1 for warnings.
    #[arg(long)]
    strict: bool,
    /// Print JSON: problems, findings and their counts.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlag,
}

/// The result of a check.
#[derive(Default, Serialize)]
struct Report {
    ok: bool,
    domains: usize,
    rules: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    /// The mistakes that prevent loading.
    problems: Vec<Problem>,
    findings: Vec<Finding>,
}

impl Check {
    pub(super) fn run(self) -> ExitCode {
        let settings = match self.config.settings() {
            Ok(settings) => settings,
            Err(problems) => return out::fail(problems),
        };
        let path = self.rules.or(settings.rules).unwrap_or_else(|| "rules".into());
        let report = Report::new(examine(&path, &settings.defaults), self.strict);
        if self.json {
            out::print_json(&report);
        } else {
            out::print(&report.text());
        }
        if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The numbers of domains and rules, and the findings.
type Examined = (usize, usize, Vec<Finding>);

fn examine(path: &Path, defaults: &Defaults) -> Result<Examined, Problems> {
    let domains = load_path(path, defaults)?;
    let findings = lint(&domains, defaults);
    let number = domains.len();
    // Conflicts between rules are found only when they are compiled together.
    let builder = Limiter::builder().defaults(*defaults).watch(false).max_keys(1);
    match domains.into_iter().fold(builder, Builder::domain).build() {
        Ok(limiter) => {
            let rules = limiter.listing().iter().map(|domain| domain.rules.len()).sum();
            Ok((number, rules, findings))
        }
        Err(BuildError::Rules(problems)) => Err(problems),
        Err(other) => {
            let (file, field) = (path.display().to_string(), String::new());
            Err(Problems(vec![Problem { file, place: None, field, message: other.to_string() }]))
        }
    }
}

impl Report {
    fn new(examined: Result<Examined, Problems>, strict: bool) -> Self {
        let mut report = Self::default();
        match examined {
            Ok((domains, rules, findings)) => {
                let of = |severity| findings.iter().filter(|found| found.severity == severity).count();
                (report.domains, report.rules) = (domains, rules);
                report.errors = of(Severity::Error);
                (report.warnings, report.notes) = (of(Severity::Warning), of(Severity::Note));
                report.findings = findings;
            }
            Err(Problems(problems)) => {
                report.errors = problems.len();
                report.problems = problems;
            }
        }
        report.ok = report.errors == 0 && !(strict && report.warnings > 0);
        report
    }

    /// Prints one line per finding, and a summary.
    fn text(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            let _ = writeln!(text, "{problem}");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "{finding}");
        }
        let found = [
            out::count(self.errors, "error"),
            out::count(self.warnings, "warning"),
            out::count(self.notes, "note"),
        ];
        if self.problems.is_empty() {
            let _ =
                write!(text, "{}, {}: ", out::count(self.domains, "domain"), out::count(self.rules, "rule"));
        } else {
            let _ = write!(text, "the rules do not load: ");
        }
        let _ = writeln!(text, "{}", found.join(", "));
        text
    }
}
