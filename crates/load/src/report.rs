//! What a run found.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// What a run found in its measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Calls settled: allowed, denied and failed.
    pub requests: u64,
    /// Answers that allowed.
    pub allowed: u64,
    /// Answers that denied.
    pub denied: u64,
    /// Calls without a proper answer: transport errors, timeouts, error statuses.
    pub errors: u64,
    /// The first few different texts of errors.
    pub error_texts: Vec<String>,
    /// Calls of an open loop that were due before the end and never found a free stream.
    pub unsent: u64,
    /// Calls that a server going away refused unprocessed, and that were sent again.
    pub resent: u64,
    /// Connections opened after the first ones.
    pub reconnects: u64,
    /// Seconds from the end of the warm-up to the last answer.
    pub elapsed_s: f64,
    /// Calls answered per second.
    pub per_second: f64,
    /// From the time a call was due (open loop) or sent (closed loop) to its answer.
    pub latency: Latency,
    /// From the time a call was due until it was sent: waiting for a free stream, or for this
    /// generator. Only in an open loop.
    pub send_delay: Option<Latency>,
    /// What the generator itself took.
    pub generator: Generator,
    /// What the processes asked about took.
    pub processes: Vec<Process>,
}

/// The distribution of a time, in microseconds; values are exact to 0.1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 90 % are at most this.
    pub p90_us: f64,
    /// 99 % are at most this.
    pub p99_us: f64,
    /// 99.9 % are at most this.
    pub p999_us: f64,
    /// The longest.
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

/// What the generator itself took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU seconds of its thread.
    pub cpu_s: f64,
    /// The part of the elapsed time it was on a core, 0 to 1.
    pub share: f64,
    /// The part of the elapsed time it could have run, had others not held its core, 0 to 1.
    pub starved: f64,
    /// CPU microseconds per request.
    pub us_per_request: f64,
}

impl Generator {
    /// Whether the rate was limited by the generator: it hardly ever waited for the server, as it was
    /// busy, or waiting for its core.
    pub fn is_limit(&self) -> bool {
        self.share + self.starved > 0.9
    }
}

/// What one process took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// CPU seconds of all its threads, in steps of 10 ms.
    pub cpu_s: f64,
    /// CPU microseconds per request.
    pub us_per_request: f64,
    /// Resident memory when the measured part began.
    pub resident_before_bytes: u64,
    /// Resident memory when it ended.
    pub resident_after_bytes: u64,
    /// Whether it ended during the run; its figures are then those of its last moment seen.
    pub ended: bool,
}
