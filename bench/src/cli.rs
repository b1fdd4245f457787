//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;
use crate::finding::Finding;
use crate::machine::repository;
use crate::{report, study};

/// Measures Tidegate: speed beside the crate governor, size, pauses, accuracy, and the service.
#[derive(Parser)]
#[command(name = "tidegate-bench")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
    /// Short runs, for a first impression.
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    /// Print results as JSON, one study per line.
    #[arg(long, global = true)]
    json: bool,
    /// Exit with 1 if a target was missed.
    #[arg(long, global = true)]
    check: bool,
    /// Where benchmarks.md and plots/ go [default: docs, or target/bench-quick with --quick]
    #[arg(long, global = true, value_name = "FOLDER")]
    docs: Option<PathBuf>,
    /// The service to measure [default: the one that cargo built beside this program]
    #[arg(long, global = true, value_name = "PROGRAM")]
    pub(crate) tidegate: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Time per decision beside governor.
    Compare,
    /// Instructions per decision, by gungraun and valgrind.
    Instructions {
        /// Keep the counts in the repository, for the next run to be compared with.
        #[arg(long)]
        save: bool,
    },
    /// Bytes of heap per key.
    Bytes,
    /// Heap and time of tenants with limits of their own.
    Tenants,
    /// The longest pauses while keys come, expire and are written to disk.
    Pauses,
    /// Wrong decisions of the approximate algorithms against the exact log.
    Accuracy,
    /// Plots of every algorithm at the seam of two windows.
    Seam,
    /// The service beside throttlecrab, NGINX and servers that decide nothing.
    Service {
        /// Only this part.
        part: Option<study::service::Part>,
    },
    /// The service on Redis, beside Redis alone.
    Redis {
        /// Only this part.
        part: Option<study::redis::Part>,
    },
    /// A good client beside floods over HTTP/2.
    Floods,
    /// Floods a service, as the study `floods` does.
    #[command(hide = true)]
    Flood {
        /// One of the floods of the testkit.
        name: String,
        /// The gRPC listener.
        at: SocketAddr,
        /// How long, in milliseconds.
        length_ms: u64,
    },
    /// What recording decisions for the dashboard costs, beside a million keys.
    Recorder,
    /// Decisions asked for from Python and TypeScript.
    Sdk,
    /// All of the above, written to benchmarks.md.
    Report,
}

impl Options {
    /// Where the page and its plots go.
    pub(crate) fn docs(&self) -> PathBuf {
        let default = if self.quick { "target/bench-quick" } else { "docs" };
        self.docs.clone().unwrap_or_else(|| repository().join(default))
    }

    /// Where a plot goes.
    pub(crate) fn plot(&self, file: &str) -> PathBuf {
        self.docs().join("plots").join(file)
    }

    fn tell(&self, finding: &Finding) -> Result<(), Error> {
        if self.json {
            println!("{}", serde_json::to_string(finding)?);
        } else {
            println!("{}", finding.text());
        }
        Ok(())
    }
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let options = Options::parse();
    match measure(&options) {
        Ok(findings) => {
            let missed = findings.iter().flat_map(|finding| &finding.targets).any(|target| !target.met);
            if options.check && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("tidegate-bench: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure(options: &Options) -> Result<Vec<Finding>, Error> {
    let finding = match &options.command {
        Command::Compare => study::compare::run(options)?,
        Command::Instructions { save } => study::instructions::run(*save)?,
        Command::Bytes => study::bytes::run(options)?,
        Command::Tenants => study::tenants::run(options)?,
        Command::Pauses => study::pauses::run(options)?,
        Command::Accuracy => study::accuracy::run(options)?,
        Command::Seam => study::seam::run(options)?,
        Command::Floods => study::floods::run(options)?,
        Command::Flood { name, at, length_ms } => {
            study::floods::flood(name, *at, *length_ms)?;
            return Ok(Vec::new());
        }
        Command::Recorder => study::recorder::run(options)?,
        Command::Sdk => study::sdk::run(options)?,
        Command::Service { part } => {
            return study::service::run(options, *part, |finding| options.tell(finding));
        }
        Command::Redis { part } => {
            return study::redis::run(options, *part, |finding| options.tell(finding));
        }
        Command::Report => return report::run(options, |finding| options.tell(finding)),
    };
    options.tell(&finding)?;
    Ok(vec![finding])
}
