//! The sequence of calls of a run, and when each is due.

use crate::draw::Draw;
use crate::plan::{Length, Pace, Plan};
use crate::schedule::Schedule;

/// A request, from the time it is due until its result is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) key: u64,
    /// When the call was due. Latency is measured from here.
    pub(crate) due_ns: u64,
    /// Whether the call is counted; false during the warm-up.
    pub(crate) measured: bool,
    /// How often the server refused the call without processing it.
    pub(crate) refusals: u8,
}

/// Generates the calls of a plan.
#[derive(Debug)]
pub(crate) struct Traffic {
    draw: Draw,
    /// The due times; `None` in a closed loop.
    schedule: Option<Schedule>,
    /// When the warm-up ends.
    pub(crate) measure_from_ns: u64,
    length: Length,
    issued: u64,
}

impl Traffic {
    pub(crate) fn new(plan: &Plan, start_ns: u64) -> Self {
        let schedule = match plan.pace {
            Pace::Closed => None,
            Pace::Open { per_second, poisson } => {
                Some(Schedule::new(start_ns, per_second, poisson, plan.seed))
            }
        };
        Self {
            draw: Draw::new(plan.keys, plan.seed),
            schedule,
            measure_from_ns: start_ns + plan.warm_up.as_nanos() as u64,
            length: plan.length,
            issued: 0,
        }
    }

    /// Returns the next call, if one is due.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<Call> {
        let due_ns = self.next_due_ns(now_ns)?;
        if due_ns > now_ns {
            return None;
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        let measured = due_ns >= self.measure_from_ns;
        self.issued += u64::from(measured);
        Some(Call { key: self.draw.key(), due_ns, measured, refusals: 0 })
    }

    /// Returns when the next call is due: at once in a closed loop, `None` once all calls were issued.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> Option<u64> {
        let due_ns = self.schedule.as_ref().map_or(now_ns, Schedule::peek_ns);
        let left = match self.length {
            Length::Requests(requests) => self.issued < requests,
            Length::Time(_) => due_ns < self.until_ns(),
        };
        left.then_some(due_ns)
    }

    /// Returns whether the run has reached its length, in time or calls. In an open loop, calls that were due
    /// before may still be left.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        match self.length {
            Length::Requests(requests) => self.issued >= requests,
            Length::Time(_) => now_ns >= self.until_ns(),
        }
    }

    pub(crate) fn is_open_loop(&self) -> bool {
        self.schedule.is_some()
    }

    /// Ends the traffic, and returns the number of measured calls that were due but never issued.
    pub(crate) fn count_unsent(&mut self, now_ns: u64) -> u64 {
        let mut unsent = 0;
        while let Some(due_ns) = self.next_due_ns(now_ns)
            && due_ns <= now_ns
            && let Some(schedule) = &mut self.schedule
        {
            schedule.advance();
            if due_ns >= self.measure_from_ns {
                unsent += 1;
                self.issued += 1;
            }
        }
        unsent
    }

    /// Returns the share of the measured traffic that was issued, from 0 to 1.
    pub(crate) fn done(&self, now_ns: u64) -> f64 {
        let since_ns = now_ns.saturating_sub(self.measure_from_ns) as f64;
        match self.length {
            Length::Requests(requests) => self.issued as f64 / requests as f64,
            Length::Time(time) => (since_ns / time.as_nanos() as f64).min(1.0),
        }
    }

    /// Returns when the last call may be issued; `u64::MAX` unless the run is limited by time.
    fn until_ns(&self) -> u64 {
        match self.length {
            Length::Requests(_) => u64::MAX,
            Length::Time(time) => self.measure_from_ns.saturating_add(time.as_nanos() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Traffic;
    use crate::plan::{Endpoint, Length, Pace, Plan};

    fn plan(pace: Pace, length: Length) -> Plan {
        let endpoint = Endpoint::Unix("none".into());
        Plan { pace, length, warm_up: Duration::from_micros(10), ..Plan::new(endpoint) }
    }

    #[test]
    fn warm_up_calls_are_not_measured_and_do_not_count() {
        let mut traffic = Traffic::new(&plan(Pace::Closed, Length::Requests(2)), 0);
        assert!(!traffic.next(9_999).unwrap().measured);
        assert!(traffic.next(10_000).unwrap().measured);
        assert!(traffic.next(10_001).unwrap().measured);
        assert!(traffic.next(10_002).is_none());
        assert!(traffic.is_over(10_002));
    }

    #[test]
    fn a_late_call_of_an_open_loop_keeps_its_scheduled_time() {
        let pace = Pace::Open { per_second: 1e6, poisson: false };
        let mut traffic = Traffic::new(&plan(pace, Length::Requests(100)), 0);
        assert_eq!(traffic.next(5_000_000).unwrap().due_ns, 0);
        assert_eq!(traffic.next(5_000_000).unwrap().due_ns, 1_000);
    }

    #[test]
    fn calls_that_were_due_before_the_end_and_found_no_stream_are_unsent() {
        let pace = Pace::Open { per_second: 1e6, poisson: false };
        let mut traffic = Traffic::new(&plan(pace, Length::Time(Duration::from_micros(20))), 0);
        while traffic.next(14_000).is_some() {}
        // Due at 15, 16 … 29 µs; one of them gets a stream after the end.
        assert_eq!(traffic.next(31_000).unwrap().due_ns, 15_000);
        assert_eq!(traffic.count_unsent(31_000), 14);
        assert!(traffic.next(32_000).is_none());
    }
}
