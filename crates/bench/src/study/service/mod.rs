//! The service beside others: CPU per decision, latency, memory, and ten thousand rules.
//!
//! - `cpu`, `latency`, `memory`, `rules`: what is measured
//! - `programs`, `child`, `servers`: what it is measured on
//! - `drive`: passes of the load generator, and whether they count

mod child;
mod cpu;
mod drive;
mod latency;
mod memory;
mod programs;
mod rules;
mod servers;

use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub(crate) use self::programs::Programs;
use crate::cli::Options;
use crate::error::{Error, ensure};
use crate::finding::Finding;

/// The core of the load generator, which is a thread of this process.
const GENERATOR_CORE: usize = 1;

/// A part of this study.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Part {
    /// CPU per decision beside throttlecrab, tonic and NGINX.
    Cpu,
    /// Latency at half the load the service bears.
    Latency,
    /// Resident memory by the number of keys.
    Memory,
    /// Start and reload with 10,000 rules.
    Rules,
}

/// One part, or all of them; each finding is told as it comes.
pub(crate) fn run(
    options: &Options,
    part: Option<Part>,
    tell: impl Fn(&Finding) -> Result<(), Error>,
) -> Result<Vec<Finding>, Error> {
    let programs = Programs::find(options)?;
    let _bound = Bound::to(GENERATOR_CORE)?;
    let parts = part.map_or_else(|| Part::value_variants().to_vec(), |part| vec![part]);
    let (mut findings, mut most_per_second) = (Vec::new(), None);
    for part in parts {
        let finding = match part {
            Part::Cpu => {
                let (finding, most) = cpu::run(options, &programs)?;
                most_per_second = Some(most);
                finding
            }
            Part::Latency => latency::run(options, &programs, most_per_second)?,
            Part::Memory => memory::run(options, &programs)?,
            Part::Rules => rules::run(options, &programs)?,
        };
        tell(&finding)?;
        findings.push(finding);
    }
    Ok(findings)
}

/// This thread is bound to one core for as long as this lives; threads and processes that it starts
/// are too.
struct Bound {
    before: CpuSet,
}

impl Bound {
    fn to(core: usize) -> Result<Self, Error> {
        let refused = |error| Error::Wrong(format!("the generator cannot be bound to core {core}: {error}"));
        let before = sched_getaffinity(None).map_err(refused)?;
        ensure(before.count() >= 2, || {
            "the service is measured on two cores, one for the server and one for the generator; there is one"
                .to_owned()
        })?;
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).map_err(refused)?;
        Ok(Self { before })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // What was allowed before is allowed again.
        let _ = sched_setaffinity(None, &self.before);
    }
}
