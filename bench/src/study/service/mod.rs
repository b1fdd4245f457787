//! Compares the service with others: CPU per decision, latency, memory, and ten thousand rules.
//!
//! - `cpu`, `latency`, `memory`, `rules`, `writes`: the measurements
//! - `programs`, `servers`: the servers it is compared with

mod cpu;
mod latency;
mod memory;
mod programs;
mod rules;
mod servers;
mod writes;

use clap::ValueEnum;

pub(crate) use self::programs::Programs;
use crate::cli::Options;
use crate::error::Error;
use crate::finding::Finding;
use crate::study::bed::Bound;

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
    /// Latency while quotas change.
    Writes,
}

/// Runs one part, or all of them, and reports each finding as soon as it is available.
pub(crate) fn run(
    options: &Options,
    part: Option<Part>,
    tell: impl Fn(&Finding) -> Result<(), Error>,
) -> Result<Vec<Finding>, Error> {
    let programs = Programs::find(options)?;
    let _bound = Bound::to_generator_core()?;
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
            Part::Writes => writes::run(options, &programs)?,
        };
        tell(&finding)?;
        findings.push(finding);
    }
    Ok(findings)
}
