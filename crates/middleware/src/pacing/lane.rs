//! The known limits of one host, and when the next request to it may start.
//!
//! The rules are in `vectors/README.md` and are the same in every language. Time is passed in.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::learn::Learned;

/// The most requests of this client that are remembered, to tell when the first of them leaves the server's window.
const MOST_STARTS: usize = 1_000;

/// How long other requests wait for the response to a request that was sent to find out how much is left.
const SCOUT: Duration = Duration::from_secs(1);

/// Longer than any wait.
const A_YEAR: Duration = Duration::from_hours(24 * 365);

/// A request that was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    number: u64,
    at: Instant,
}

/// A started request that the lane remembers.
struct Started {
    start: Start,
    /// When the request got a response or failed.
    ended: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Lane {
    /// The limits in the last response that stated any, and when that response arrived.
    learned: Option<(Learned, Instant)>,
    in_flight: usize,
    /// The estimated number of requests that may start. Negative if more have started than allowed.
    left: Option<i64>,
    known_at: Option<Instant>,
    known_until: Option<Instant>,
    blocked_until: Option<Instant>,
    last_start: Option<Instant>,
    /// When the last request started while no other was in flight.
    scout_start: Option<Instant>,
    number: u64,
    starts: VecDeque<Started>,
    /// Whether the server replenishes its limit gradually.
    gradual: bool,
    /// Whether there was a response, and no response has stated a limit so far.
    silent: bool,
}

impl Lane {
    pub(super) fn learned(&self) -> Option<&Learned> {
        self.learned.as_ref().map(|(learned, _)| learned)
    }

    /// Returns when the next request may start, unless a response changes that before.
    pub(super) fn ready_at(&self, now: Instant) -> Instant {
        let counts = self.known_until.is_some_and(|until| now < until);
        let spread = self.learned.as_ref().filter(|_| counts).and_then(|(learned, at)| {
            let since = self.last_start.map_or(*at, |last| last.max(*at));
            Some(later(since, learned.spread()?))
        });
        let waits = [self.blocked_until, spread].into_iter().flatten().fold(now, Instant::max);
        if waits > now || self.in_flight == 0 {
            return waits;
        }
        let after_scout = |start: Option<Instant>| start.map_or(now, |start| now.max(start + SCOUT));
        match (self.left, self.known_until) {
            (None, _) if self.silent => now,
            (None, _) => after_scout(self.scout_start),
            // There is no less after a reset than before it.
            (Some(1..), _) => now,
            (Some(_), Some(until)) if counts => until,
            (Some(_), _) => after_scout(self.last_start),
        }
    }

    /// Returns the time until which no request starts, whatever the responses are.
    pub(super) fn surely_until(&self, now: Instant) -> Instant {
        if self.in_flight > 0 { self.blocked_until.unwrap_or(now) } else { self.ready_at(now) }
    }

    /// Records that a request starts now.
    pub(super) fn start(&mut self, now: Instant) -> Start {
        if self.in_flight == 0 {
            self.scout_start = Some(now);
        }
        self.number += 1;
        self.in_flight += 1;
        self.last_start = Some(now);
        self.left = self.left.map(|left| left - 1);
        let start = Start { number: self.number, at: now };
        self.starts.push_back(Started { start, ended: None });
        if self.starts.len() > MOST_STARTS {
            self.starts.pop_front();
        }
        start
    }

    /// Records that a request got no response. It is not known whether the server counted it.
    pub(super) fn fail(&mut self, start: Start, now: Instant) {
        self.in_flight -= 1;
        if let Ok(index) = self.position(start) {
            self.starts[index].ended = Some(now);
        }
    }

    /// Records the limits in a response. A response without limits changes nothing.
    pub(super) fn respond(&mut self, start: Start, learned: Learned, denied: bool, now: Instant) {
        self.fail(start, now);
        if denied {
            if let Ok(index) = self.position(start) {
                self.starts.remove(index);
            }
            self.gradual = !self.gradual;
        }
        if !learned.tells_something() {
            self.silent = self.learned.is_none();
            return;
        }
        self.silent = false;
        let Learned { remaining, reset_after, retry_after, .. } = learned;
        if let Some(retry_after) = retry_after.filter(|wait| !wait.is_zero()) {
            self.block(later(now, retry_after));
        } else if let (Some(remaining), Some(reset)) = (remaining, reset_after) {
            self.count(start, remaining, now);
            self.known_until = Some(later(now, reset));
            if remaining == 0 {
                let more_at = self.more_at(start, &learned, reset, now);
                self.block(more_at);
            }
        }
        self.learned = Some((learned, now));
    }

    fn position(&self, start: Start) -> Result<usize, usize> {
        self.starts.binary_search_by_key(&start.number, |started| started.start.number)
    }

    fn block(&mut self, until: Instant) {
        self.left = Some(0);
        self.known_until = Some(until);
        self.blocked_until = self.blocked_until.max(Some(until));
    }

    /// Estimates how many requests may start: the server may not have seen all requests when it stated what remains.
    fn count(&mut self, start: Start, remaining: u64, now: Instant) {
        let took = now - start.at;
        let beside = |started: &&Started| {
            started.ended.is_none()
                && started.start.number < start.number
                && started.start.at + took >= start.at
        };
        let unseen = self.number - start.number + self.starts.iter().filter(beside).count() as u64;
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let estimate = whole(remaining).saturating_sub(whole(unseen));
        match self.left {
            Some(left) if self.known_at.is_some_and(|known_at| start.at < known_at) => {
                self.left = Some(left.min(estimate));
            }
            _ => (self.left, self.known_at) = (Some(estimate), Some(now)),
        }
    }

    /// Returns when more is available, now that nothing is left.
    fn more_at(&mut self, start: Start, learned: &Learned, reset: Duration, now: Instant) -> Instant {
        let (Some(limit), Some(window)) = (learned.limit, learned.window()) else { return later(now, reset) };
        let few = (1..=MOST_STARTS as u64).contains(&limit);
        if !few || window.is_zero() || reset < window {
            return later(now, reset);
        }
        // The server states when all of it is available. The times of our own requests tell when the first unit is.
        let ends = self.starts.iter().map(|started| started.ended.unwrap_or(now));
        let ends: Vec<Instant> = ends.filter(|end| later(*end, window) > start.at).collect();
        let limit = limit as usize;
        if ends.len() < limit {
            self.gradual = true;
        }
        if self.gradual {
            // Wait for one and a half of the steps in which the limit is replenished.
            let step = window.saturating_mul(3) / (2 * limit as u32);
            return later(now, reset.min(step));
        }
        later(ends[ends.len() - limit], window)
    }
}

fn later(at: Instant, wait: Duration) -> Instant {
    at.checked_add(wait.min(A_YEAR)).unwrap_or(at)
}
