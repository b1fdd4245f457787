//! Runs all studies and writes the results as one page.

use std::fmt::Write;
use std::fs;

use clap::ValueEnum as _;

use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::{Finding, Target, markdown};
use crate::machine::Machine;
use crate::study;

/// Runs every study, reports each finding as soon as it is available, and writes the page.
pub(crate) fn run(
    options: &Options,
    tell: impl Fn(&Finding) -> Result<(), Error>,
) -> Result<Vec<Finding>, Error> {
    let machine = Machine::look();
    // Missing programs are reported before anything is measured.
    study::service::Programs::find(options)?;
    study::redis::Programs::find(options)?;
    let studies = [
        // First, because it needs tools too, and fails early if they are missing.
        |_: &Options| study::instructions::run(false),
        study::compare::run,
        study::bytes::run,
        study::tenants::run,
        study::pauses::run,
        study::accuracy::run,
        study::seam::run,
    ];
    let mut findings = Vec::new();
    for run in studies {
        let finding = run(options)?;
        tell(&finding)?;
        findings.push(finding);
    }
    // A server that cannot be measured does not stop the other studies, but fails the run at its end.
    let mut unmeasured = Vec::new();
    for part in study::service::Part::value_variants() {
        keep(study::service::run(options, Some(*part), &tell), &mut findings, &mut unmeasured);
    }
    for part in study::redis::Part::value_variants() {
        keep(study::redis::run(options, Some(*part), &tell), &mut findings, &mut unmeasured);
    }
    let floods = study::floods::run(options).and_then(|finding| tell(&finding).map(|()| vec![finding]));
    keep(floods, &mut findings, &mut unmeasured);
    let sdk = study::sdk::run(options).and_then(|finding| tell(&finding).map(|()| vec![finding]));
    keep(sdk, &mut findings, &mut unmeasured);
    let recorder = study::recorder::run(options).and_then(|finding| tell(&finding).map(|()| vec![finding]));
    keep(recorder, &mut findings, &mut unmeasured);
    let path = options.docs().join("benchmarks.md");
    fs::create_dir_all(options.docs()).map_err(Error::io(&options.docs()))?;
    fs::write(&path, page(options, &machine, &findings, &unmeasured)).map_err(Error::io(&path))?;
    eprintln!("report: written to {}", path.display());
    ensure(unmeasured.is_empty(), || unmeasured.join("\n"))?;
    Ok(findings)
}

fn keep(measured: Result<Vec<Finding>, Error>, findings: &mut Vec<Finding>, unmeasured: &mut Vec<String>) {
    match measured {
        Ok(more) => findings.extend(more),
        Err(error) => {
            eprintln!("report: not measured: {error}");
            unmeasured.push(error.to_string());
        }
    }
}

fn page(options: &Options, machine: &Machine, findings: &[Finding], unmeasured: &[String]) -> String {
    let mut page = String::from("# Benchmarks\n\n");
    let command = if options.quick { "make bench-quick" } else { "make bench" };
    let _ = writeln!(
        page,
        "Written by `{command}`; do not edit. Each section names the command that makes it anew. Time \
         is told as a ratio of two things measured in turns in one run, because the machine is shared \
         and noisy; counts of instructions, bytes and wrong decisions do not depend on the machine's \
         mood.\n"
    );
    page += &markdown(&machine.table());
    page += "\n## Targets\n\n";
    page += &markdown(&Target::table(findings.iter().flat_map(|finding| &finding.targets)));
    if !unmeasured.is_empty() {
        page += "\n## Not measured\n\n";
        for reason in unmeasured {
            let _ = writeln!(page, "- {reason}");
        }
    }
    for finding in findings {
        let _ = write!(page, "\n{}", finding.markdown().trim_end());
        page.push('\n');
    }
    page
}
