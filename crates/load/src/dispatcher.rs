//! Hands out calls to connections, and counts their results.

use std::collections::VecDeque;

use crate::payload::{Answer, Decision, Payload};
use crate::tally::Tally;
use crate::traffic::{Call, Traffic};

/// A call that was refused this many times counts as failed.
const MAX_REFUSALS: u8 = 16;

/// Hands out calls to connections, and counts their results.
pub(crate) struct Dispatcher<'a> {
    pub(crate) payload: &'a mut dyn Payload,
    pub(crate) tally: Tally,
    pub(crate) traffic: Traffic,
    /// Calls that the server refused without processing them. They are sent again before new ones.
    refused: VecDeque<Call>,
    /// The current time: when the bytes at hand were read, or are written.
    pub(crate) now_ns: u64,
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn new(payload: &'a mut dyn Payload, tally: Tally, traffic: Traffic) -> Self {
        Self { payload, tally, traffic, refused: VecDeque::new(), now_ns: 0 }
    }

    /// Returns the next call to send, if one is due.
    pub(crate) fn next(&mut self) -> Option<Call> {
        if let Some(call) = self.refused.pop_front() {
            self.tally.resent(&call);
            return Some(call);
        }
        let call = self.traffic.next(self.now_ns)?;
        self.tally.sent(&call, self.now_ns);
        Some(call)
    }

    /// Returns whether `next` would return a call.
    pub(crate) fn has_due(&self) -> bool {
        self.has_refused()
            || self.traffic.next_due_ns(self.now_ns).is_some_and(|due_ns| due_ns <= self.now_ns)
    }

    /// Returns the payload's decision on a response.
    pub(crate) fn judge(&mut self, status: u16, body: &[u8]) -> Decision {
        self.payload.judge(Answer { status, body })
    }

    pub(crate) fn settle(&mut self, call: &Call, decision: &Decision) {
        match decision {
            Decision::Allowed => self.tally.answered(call, true, self.now_ns),
            Decision::Denied => self.tally.answered(call, false, self.now_ns),
            Decision::Error(text) => self.tally.failed(call, text),
        }
    }

    pub(crate) fn fail(&mut self, call: &Call, text: &str) {
        self.tally.failed(call, text);
    }

    /// Queues a call to be sent again, because the server reported that it did not process it.
    pub(crate) fn refuse(&mut self, call: Call) {
        if call.refusals >= MAX_REFUSALS {
            return self.fail(&call, "refused too many times by RST_STREAM or GOAWAY");
        }
        self.refused.push_back(Call { refusals: call.refusals + 1, ..call });
    }

    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Fails the calls that could not be sent again.
    pub(crate) fn fail_refused(&mut self, text: &str) {
        while let Some(call) = self.refused.pop_front() {
            self.fail(&call, text);
        }
    }
}
