//! What came of a scenario.

use std::fmt::Write as _;

use serde::Serialize;

use crate::scenario::{Consistency, Scenario};

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The seed, from which all of it can be repeated.
    pub seed: u64,
    /// The limit, in words.
    pub limit: String,
    /// How nodes shared it.
    pub consistency: Consistency,
    /// How many nodes there were.
    pub nodes: usize,
    /// Microseconds that were simulated.
    pub duration_us: u64,
    /// Units that were asked for.
    pub offered: u64,
    /// Units that were admitted.
    pub admitted: u64,
    /// Units admitted beyond what the limit promises.
    pub over_admitted: u64,
    /// Units that were denied.
    pub denied: u64,
    /// Units that one node that gets all requests would have admitted.
    pub ideal: u64,
    /// Units by which less was admitted than by one node that gets all requests: what sharing the limit costs.
    pub falsely_denied: u64,
    /// Requests that were not decided because the store did not answer.
    pub failed: u64,
    /// Calls to the shared store.
    pub calls: u64,
    /// The most units that nodes held at once.
    pub most_parked: u64,
    /// Units asked for in each second.
    pub offered_per_second: Vec<u64>,
    /// Units admitted in each second.
    pub admitted_per_second: Vec<u64>,
    /// What did not hold, if anything.
    pub broken: Option<String>,
}

impl Report {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let seconds = scenario.duration_us.div_ceil(1_000_000) as usize;
        Self {
            seed: scenario.seed,
            limit: scenario.limit.to_string(),
            consistency: scenario.consistency,
            nodes: scenario.traffic.len(),
            duration_us: 0,
            offered: 0,
            admitted: 0,
            over_admitted: 0,
            denied: 0,
            ideal: 0,
            falsely_denied: 0,
            failed: 0,
            calls: 0,
            most_parked: 0,
            offered_per_second: vec![0; seconds + 1],
            admitted_per_second: vec![0; seconds + 1],
            broken: None,
        }
    }

    pub(crate) fn offered(&mut self, at_us: u64) {
        self.offered += 1;
        self.offered_per_second[(at_us / 1_000_000) as usize] += 1;
    }

    pub(crate) fn admitted(&mut self, at_us: u64, units: u64, over: u64) {
        self.admitted += units;
        self.over_admitted += over;
        self.admitted_per_second[(at_us / 1_000_000) as usize] += units;
    }

    pub(crate) fn parked(&mut self, units: u64) {
        self.most_parked = self.most_parked.max(units);
    }

    pub(crate) fn ended(&mut self, at_us: u64) {
        self.duration_us = at_us;
        self.falsely_denied = self.ideal.saturating_sub(self.admitted + self.failed);
    }

    /// Returns the admitted units per second from second `from` to the end, in hundredths.
    pub fn rate_after(&self, from: usize) -> u64 {
        let whole = (self.duration_us / 1_000_000) as usize;
        let seconds = &self.admitted_per_second[from.min(whole)..whole.max(from)];
        seconds.iter().sum::<u64>() * 100 / (seconds.len() as u64).max(1)
    }

    /// Returns the report as JSON.
    ///
    /// # Errors
    /// Never fails in practice: all fields are numbers and texts.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

/// Returns reports as a Markdown table, one row each.
pub fn table(reports: &[Report]) -> String {
    let mut table = String::from(
        "| limit | consistency | nodes | offered | admitted | over | denied | falsely | failed | store calls | most parked |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for report in reports {
        let Report { limit, nodes, offered, admitted, over_admitted, denied, falsely_denied, failed, .. } =
            report;
        let (calls, parked, mode) = (report.calls, report.most_parked, report.consistency.name());
        let _ = writeln!(
            table,
            "| {limit} | {mode} | {nodes} | {offered} | {admitted} | {over_admitted} | {denied} | {falsely_denied} | {failed} | {calls} | {parked} |"
        );
    }
    table
}
