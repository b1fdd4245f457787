//! The naive token bucket: how many tokens there were, and when that was. Tokens are exact
//! fractions and come back at `requests` per period, up to `burst`.

use tidegate_core::{Limit, Micros};

use super::{Exact, Oracle};

/// See the module.
#[derive(Clone)]
pub struct TokenBucket {
    limit: Limit,
    /// Tokens per microsecond.
    rate: Exact,
    burst: Exact,
    /// Tokens in the bucket at `last`.
    tokens: Exact,
    last: Micros,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(limit: &Limit) -> Self {
        let burst = whole(limit.burst());
        Self { limit: limit.clone(), rate: rate(limit), burst, tokens: burst, last: Micros(0) }
    }

    /// Tokens at `at`; below zero if the clock has stepped back to a time before they were taken.
    fn tokens_at(&self, at: Micros) -> Exact {
        let elapsed_us = Exact::from(i128::from(at.0) - i128::from(self.last.0));
        (self.tokens + self.rate * elapsed_us).min(self.burst)
    }

    fn set(&mut self, tokens: Exact, now: Micros) {
        self.tokens = tokens.max(Exact::from(0)).min(self.burst);
        self.last = now;
    }

    /// Tokens by which a bucket may be found below zero before it is certain that the clock has
    /// stepped back: a counter remembers its burst to five binary digits, rounded up.
    fn doubt(&self) -> Exact {
        let mut unit = 1;
        while self.burst > whole(31 * unit) {
            unit *= 2;
        }
        (self.burst / whole(unit)).ceil() * whole(unit) - self.burst
    }
}

fn whole(units: u64) -> Exact {
    Exact::from(i128::from(units))
}

fn rate(limit: &Limit) -> Exact {
    whole(limit.requests()) / whole(limit.period_us())
}

impl Oracle for TokenBucket {
    fn fork(&self) -> Box<dyn Oracle> {
        Box::new(self.clone())
    }

    /// Zero requests is a limit that denies everything, whatever its burst.
    fn fits(&self, cost: u64, at: Micros, _hold: bool) -> bool {
        cost == 0 || self.limit.requests() > 0 && whole(cost) <= self.tokens_at(at)
    }

    fn untouched(&self, at: Micros) -> bool {
        self.limit.requests() == 0 || self.tokens_at(at) == self.burst
    }

    fn take(&mut self, cost: u64, now: Micros) {
        self.see_from(now);
        if self.limit.requests() > 0 {
            self.set(self.tokens_at(now) - whole(cost), now);
        }
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.see_from(now);
        if self.limit.requests() > 0 {
            self.set(self.tokens_at(now) + whole(cost), now);
        }
    }

    /// Far below zero, the bucket counts as full; a little below, as empty.
    fn see_from(&mut self, now: Micros) {
        let tokens = self.tokens_at(now);
        if tokens < -self.doubt() {
            self.set(self.burst, now);
        } else if tokens < Exact::from(0) {
            self.set(Exact::from(0), now);
        }
    }

    /// Tokens in use stay in use. Under zero requests the bucket waits for the next change.
    fn relimit(&mut self, limit: &Limit, now: Micros) {
        self.limit = limit.clone();
        if limit.requests() > 0 {
            let in_use = self.burst - self.tokens_at(now);
            self.burst = whole(limit.burst());
            self.rate = rate(limit);
            self.set(self.burst - in_use, now);
        }
    }

    fn carry_on(&mut self, now: Micros) {
        let tokens = self.tokens_at(now);
        if self.limit.requests() > 0 && tokens < Exact::from(0) && tokens >= -self.doubt() {
            self.set(Exact::from(0), now);
        }
    }
}
