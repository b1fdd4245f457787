//! Counts the results of calls.

use std::io;

use hdrhistogram::Histogram;

use crate::report::Latency;
use crate::traffic::Call;

/// The most distinct error texts that are kept.
const MAX_ERROR_TEXTS: usize = 5;
/// The largest latency that is recorded, one hour. Longer ones count as this.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Counts and latencies of measured calls.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) errors: u64,
    pub(crate) error_texts: Vec<String>,
    pub(crate) resent: u64,
    /// All finished calls, including those of the warm-up.
    pub(crate) settled: u64,
    /// Measured calls that are sent but not finished.
    pub(crate) pending: u64,
    latency_ns: Histogram<u64>,
    send_delay_ns: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> io::Result<Self> {
        // Three significant digits give a precision of 0.1 %.
        let histogram = || Histogram::new_with_max(MAX_LATENCY_NS, 3).map_err(io::Error::other);
        Ok(Self {
            allowed: 0,
            denied: 0,
            errors: 0,
            error_texts: Vec::new(),
            resent: 0,
            settled: 0,
            pending: 0,
            latency_ns: histogram()?,
            send_delay_ns: histogram()?,
        })
    }

    /// Returns the number of measured calls that are finished.
    pub(crate) fn requests(&self) -> u64 {
        self.allowed + self.denied + self.errors
    }

    pub(crate) fn sent(&mut self, call: &Call, now_ns: u64) {
        if call.measured {
            self.pending += 1;
            self.send_delay_ns.saturating_record(now_ns.saturating_sub(call.due_ns));
        }
    }

    pub(crate) fn resent(&mut self, call: &Call) {
        if call.measured {
            self.resent += 1;
        }
    }

    pub(crate) fn answered(&mut self, call: &Call, allowed: bool, now_ns: u64) {
        self.settled += 1;
        if call.measured {
            self.pending -= 1;
            self.latency_ns.saturating_record(now_ns.saturating_sub(call.due_ns));
            *(if allowed { &mut self.allowed } else { &mut self.denied }) += 1;
        }
    }

    pub(crate) fn failed(&mut self, call: &Call, text: &str) {
        self.settled += 1;
        if call.measured {
            self.pending -= 1;
            self.errors += 1;
            if self.error_texts.len() < MAX_ERROR_TEXTS && !self.error_texts.iter().any(|seen| seen == text) {
                self.error_texts.push(text.to_owned());
            }
        }
    }

    pub(crate) fn latency(&self) -> Latency {
        Latency::of(&self.latency_ns)
    }

    pub(crate) fn send_delay(&self) -> Latency {
        Latency::of(&self.send_delay_ns)
    }
}
