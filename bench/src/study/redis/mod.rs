//! Compares the service on Redis with Redis alone: throughput, latency, and the cost to Redis.
//!
//! - `rate`, `latency`, `denials`, `memory`: the measurements
//! - `world`, `kind`: a service on a Redis, and its limits
//! - `incr`, `bare`, `ratelimit`: the baselines; `line`, `draw`: the client of `bare`

mod bare;
mod denials;
mod draw;
mod incr;
mod kind;
mod latency;
mod line;
mod memory;
mod rate;
mod ratelimit;
mod world;

use std::path::PathBuf;

use clap::ValueEnum;

use self::incr::Incr;
use self::world::World;
use crate::cli::Options;
use crate::error::Error;
use crate::finding::{Finding, Table};
use crate::study::bed::{Bound, Launcher, Passes, installed, version};

/// A part of this study.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Part {
    /// Decisions per second beside INCR, and what they cost Redis.
    Rate,
    /// Latency alone and at half load, beside bare EVALSHA.
    Latency,
    /// What a flood of denied requests sends to Redis.
    Denials,
    /// Bytes of Redis per key.
    Memory,
}

/// The programs that are started.
pub(crate) struct Programs {
    launcher: Launcher,
    incr: Incr,
    /// The path of envoyproxy/ratelimit, if it is installed.
    ratelimit: Option<PathBuf>,
    server_version: String,
}

impl Programs {
    /// Finds all programs, or returns an error that tells how to get the missing one.
    pub(crate) fn find(options: &Options) -> Result<Self, Error> {
        let server = installed("redis-server", "run `make bench-tools`, or `apt-get install redis-server`")?;
        Ok(Self {
            launcher: Launcher::find(options)?,
            incr: Incr::find(options.quick)?,
            ratelimit: ratelimit::find(),
            server_version: version(&server, "--version"),
        })
    }

    /// Returns a table of the measured programs.
    fn table(&self) -> Table {
        let mut table = Table::new("What was measured", ["", "version", "started as"]);
        let tidegate = version(&self.launcher.tidegate, "--version");
        table.row(["Tidegate", &tidegate, "`tidegate serve --store redis://… --rules … --grpc … --admin …`"]);
        table.row(["Redis", &self.server_version, "`redis-server`, nothing kept on disk"]);
        let incr = version(self.incr.program(), "--version");
        table.row(["redis-benchmark", &incr, "`redis-benchmark -t incr -c 50 -P 1`"]);
        if let Some(program) = &self.ratelimit {
            let settings = "`service_cmd` with `REDIS_URL`, `USE_STATSD=false`, fixed windows";
            table.row(["envoyproxy/ratelimit", &ratelimit::version(program), settings]);
        }
        table
    }
}

/// Returns the length and number of passes.
fn passes(options: &Options) -> Passes {
    let passes = Passes::new(options.quick);
    Passes { count: if options.quick { 2 } else { passes.count }, ..passes }
}

/// Runs one part, or all of them, and reports each finding as soon as it is available.
pub(crate) fn run(
    options: &Options,
    part: Option<Part>,
    tell: impl Fn(&Finding) -> Result<(), Error>,
) -> Result<Vec<Finding>, Error> {
    let programs = Programs::find(options)?;
    let _bound = Bound::to_generator_core()?;
    let world = if part == Some(Part::Memory) { None } else { Some(World::start(&programs)?) };
    let parts = part.map_or_else(|| Part::value_variants().to_vec(), |part| vec![part]);
    let (mut findings, mut most_per_second) = (Vec::new(), None);
    for part in parts {
        let finding = match (part, &world) {
            (Part::Rate, Some(world)) => {
                let (finding, most) = rate::run(options, &programs, world)?;
                most_per_second = Some(most);
                finding
            }
            (Part::Latency, Some(world)) => {
                latency::run(options, &programs.launcher, world, most_per_second)?
            }
            (Part::Denials, Some(world)) => denials::run(options, world)?,
            (Part::Memory, _) | (_, None) => memory::run(options)?,
        };
        tell(&finding)?;
        findings.push(finding);
    }
    Ok(findings)
}
