//! Measures how long a decision takes an application in Python or TypeScript, over loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::bed::{Bound, Launcher, Tidegate, installed};
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Table, Target};
use crate::machine::repository;
use crate::progress::Progress;
use crate::spread::Spread;

const RULES: &str = "domain: apps\ninline_limits: { max: 10 }\n";
const MOST_MS: f64 = 1.0;
const REMEDY: &str = "run `make apps`";

/// A program of a package that measures its client and prints JSON.
struct Program {
    language: &'static str,
    command: Vec<PathBuf>,
    /// The measured cases, each with its location in the JSON. The first is one decision at a time.
    cases: &'static [(&'static str, &'static str)],
}

impl Program {
    fn python() -> Result<Self, Error> {
        let interpreter = there(repository().join(".tools/python/bin/python"))?;
        Ok(Self {
            language: "Python",
            command: vec![
                interpreter,
                repository().join("sdk/python/bench/decision.py"),
                "--seconds=0.4".into(),
            ],
            cases: &[
                ("one at a time", "/alone"),
                ("each of 100 at once", "/each_of_a_hundred"),
                ("one at a time, without asyncio", "/sync_alone"),
                ("one at a time, by httpx alone", "/plain_httpx"),
            ],
        })
    }

    fn typescript() -> Result<Self, Error> {
        there(repository().join("sdk/typescript/dist/esm/index.js"))?;
        Ok(Self {
            language: "TypeScript",
            command: vec![
                installed("node", REMEDY)?,
                repository().join("sdk/typescript/bench/decision.mjs"),
                "--rounds=2000".into(),
            ],
            cases: &[("one at a time", "/alone"), ("each of 100 at once", "/together")],
        })
    }

    fn run(&self, url: &str) -> Result<Value, Error> {
        let program = &self.command[0];
        let output = Command::new(program)
            .args(&self.command[1..])
            .args(["--json", "--url", url])
            .output()
            .map_err(Error::io(program))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure(output.status.success(), || format!("the client of {} failed: {said}", self.language))?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

fn there(path: PathBuf) -> Result<PathBuf, Error> {
    let missing = |path: &Path| Error::Wrong(format!("{} is missing: {REMEDY}", path.display()));
    if path.is_file() { Ok(path) } else { Err(missing(&path)) }
}

pub(crate) fn run(options: &Options) -> Result<Finding, Error> {
    let launcher = Launcher::find(options)?;
    let programs = [Program::python()?, Program::typescript()?];
    let _bound = Bound::to_generator_core()?;
    let tidegate = Tidegate::start(&launcher, RULES, &[])?;
    let url = format!("http://{}", tidegate.http());
    let passes = if options.quick { 2 } else { 5 };
    let progress = Progress::new("sdk", passes * programs.len() as u64);
    let mut found: Vec<Vec<Value>> = programs.iter().map(|_| Vec::new()).collect();
    for pass in 1..=passes {
        for (program, found) in programs.iter().zip(&mut found) {
            progress.step(format!("pass {pass}: {}", program.language));
            found.push(program.run(&url)?);
            progress.done(1);
        }
    }
    drop(progress);
    let caption = format!("Microseconds: median (least-most) of {passes} passes");
    let mut table = Table::new(caption, ["", "", "50 %", "99 %"]);
    let mut targets = Vec::new();
    for (program, found) in programs.iter().zip(&found) {
        for (number, (case, place)) in program.cases.iter().enumerate() {
            let [p50, p99] = [spread(found, place, "p50_us")?, spread(found, place, "p99_us")?];
            if number == 0 {
                let what = format!("median of a decision from {}, one at a time", program.language);
                targets.push(Target::at_most(what, p50.median / 1e3, MOST_MS, " ms"));
            }
            table.row([program.language.to_owned(), (*case).to_owned(), p50.to_string(), p99.to_string()]);
        }
    }
    let note = "The clients of the packages ask the service, over HTTP/1.1 on a connection that is kept, about \
                a limit that the application brings along. The service has core 0, the application core 1. \
                Decisions that are asked for at once go together.";
    Ok(Finding {
        study: "sdk",
        title: "From Python and TypeScript",
        notes: vec![note.to_owned()],
        tables: vec![table],
        targets,
        plots: Vec::new(),
        data: serde_json::json!({ "python": found[0], "typescript": found[1] }),
    })
}

fn spread(passes: &[Value], place: &str, figure: &str) -> Result<Spread, Error> {
    let of = |pass: &Value| pass.pointer(place)?.get(figure)?.as_f64();
    let figures: Option<Vec<f64>> = passes.iter().map(of).collect();
    figures.map(Spread::of).ok_or_else(|| Error::Wrong(format!("no {figure} at {place} of {passes:?}")))
}
