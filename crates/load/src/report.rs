//! The report of a run.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The results of the measured phase of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The number of finished calls: allowed, denied and failed.
    pub requests: u64,
    /// The number of responses that allowed the request.
    pub allowed: u64,
    /// The number of responses that denied the request.
    pub denied: u64,
    /// The number of failed calls: transport errors, timeouts, error statuses.
    pub errors: u64,
    /// The first few distinct error texts.
    pub error_texts: Vec<String>,
    /// The number of calls of an open loop that were due before the end but never got a free stream.
    pub unsent: u64,
    /// The number of calls that the server refused without processing them, and that were sent again.
    pub resent: u64,
    /// The number of connections opened after the initial ones.
    pub reconnects: u64,
    /// Seconds from the end of the warm-up to the last response.
    pub elapsed_s: f64,
    /// Calls per second that got a response.
    pub per_second: f64,
    /// The time from when a call was due (open loop) or sent (closed loop) to its response.
    pub latency: Latency,
    /// The time from when a call was due until it was sent: it waited for a free stream or for this
    /// generator. Only in an open loop.
    pub send_delay: Option<Latency>,
    /// The CPU usage of the generator itself.
    pub generator: Generator,
    /// The usage of the processes named in the plan.
    pub processes: Vec<Process>,
}

/// The distribution of a time, in microseconds. Values are exact to 0.1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The number of measurements.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
}

impl Latency {
    pub(crate) fn of(histogram_ns: &Histogram<u64>) -> Self {
        let at = |quantile| histogram_ns.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram_ns.len(),
            mean_us: histogram_ns.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram_ns.max() as f64 / 1e3,
        }
    }
}

/// The CPU usage of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU seconds of the generator's thread.
    pub cpu_s: f64,
    /// The share of the elapsed time that it was running on a core, from 0 to 1.
    pub share: f64,
    /// The share of the elapsed time that it was runnable but waited for a core, from 0 to 1.
    pub starved: f64,
    /// CPU microseconds per request.
    pub us_per_request: f64,
}

impl Generator {
    /// Returns whether the rate was limited by the generator: it was nearly always busy or waiting for a
    /// core, and hardly ever waited for the server.
    pub fn is_limit(&self) -> bool {
        self.share + self.starved > 0.9
    }
}

/// The usage of one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The process ID.
    pub pid: u32,
    /// CPU seconds of all its threads, in steps of 10 ms.
    pub cpu_s: f64,
    /// CPU microseconds per request.
    pub us_per_request: f64,
    /// Resident memory when the measured phase began.
    pub resident_before_bytes: u64,
    /// Resident memory when the measured phase ended.
    pub resident_after_bytes: u64,
    /// Whether the process ended during the run. Then the other figures are of the last time it was seen.
    pub ended: bool,
}
