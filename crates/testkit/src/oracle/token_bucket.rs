//! The oracle of `token_bucket`: a naive token bucket that stores a number of tokens and a time. Tokens are
//! exact fractions and refill at `requests` per period, up to `burst`.

use tidegate_core::{Limit, Micros};

use super::{Exact, Oracle};

/// A naive token bucket with exact fractions.
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
    /// Creates a full bucket.
    pub fn new(limit: &Limit) -> Self {
        let burst = whole(limit.burst());
        Self { limit: limit.clone(), rate: rate(limit), burst, tokens: burst, last: Micros(0) }
    }

    /// Returns the tokens at `at`. Below zero if the clock has stepped back to before they were taken.
    fn tokens_at(&self, at: Micros) -> Exact {
        let elapsed_us = Exact::from(i128::from(at.0) - i128::from(self.last.0));
        (self.tokens + self.rate * elapsed_us).min(self.burst)
    }

    fn set(&mut self, tokens: Exact, now: Micros) {
        self.tokens = tokens.max(Exact::from(0)).min(self.burst);
        self.last = now;
    }

    /// Returns how far below zero the tokens may be before it is certain that the clock has stepped back.
    /// The product stores the burst with five binary digits, rounded up, so this is the rounding error.
    fn burst_rounding(&self) -> Exact {
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

    /// A limit of zero requests denies everything, whatever its burst.
    fn fits(&self, cost: u64, at: Micros, _hold: bool) -> bool {
        cost == 0 || self.limit.requests() > 0 && whole(cost) <= self.tokens_at(at)
    }

    fn untouched(&self, at: Micros) -> bool {
        self.limit.requests() == 0 || self.tokens_at(at) == self.burst
    }

    fn take(&mut self, cost: u64, now: Micros) {
        self.discard_future(now);
        if self.limit.requests() > 0 {
            self.set(self.tokens_at(now) - whole(cost), now);
        }
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.discard_future(now);
        if self.limit.requests() > 0 {
            self.set(self.tokens_at(now) + whole(cost), now);
        }
    }

    /// Tokens far below zero mean that the clock stepped back, and the bucket counts as full. Slightly below
    /// zero it counts as empty.
    fn discard_future(&mut self, now: Micros) {
        let tokens = self.tokens_at(now);
        if tokens < -self.burst_rounding() {
            self.set(self.burst, now);
        } else if tokens < Exact::from(0) {
            self.set(Exact::from(0), now);
        }
    }

    /// Tokens in use stay in use. A limit of zero requests leaves the bucket unchanged until the next change.
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
        if self.limit.requests() > 0 && tokens < Exact::from(0) && tokens >= -self.burst_rounding() {
            self.set(Exact::from(0), now);
        }
    }
}
