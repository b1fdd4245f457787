//! Synced counters: a node decides alone, and exchanges counts with a shared store at regular intervals.
//!
//! A [`Share`] is what one node knows of one key. Between two exchanges it admits at most its share of what the limit
//! had left at the last one, and of what becomes free until the next. At an exchange the node charges what it has
//! admitted ([`Share::push`]), whether that fits or not, and reads what is left ([`Share::pull`]). It also counts all
//! requested units in a second counter, limited by [`traffic_limit`], from which each node computes its share of the
//! traffic.
//!
//! # The bound
//!
//! Within one interval, nodes together admit at most the sum of their shares of what is left. Shares follow the
//! traffic of the last interval, and add up to 1 while it does not move. If it moves, they can add up to more for a
//! short time; with `n` nodes the excess of one interval is at most `n - 1` times what was left. The excess is
//! charged to the shared counter, so it is a debt: nothing more is admitted until it is paid. A fixed window drops
//! its debt when it ends.
//!
//! A key that is far above its limit does not use up its share at once and then get only denials: a fraction of its
//! requests is admitted, evenly over the interval.

use crate::algorithm::sliding_window;
use crate::{Algorithm, Limit, MAX_COUNT, Micros, Outcome, State, Verdict, Window};

/// The denominator of shares and ratios.
const WHOLE: u64 = 1024;

/// The smallest share, so that a node without traffic can still admit some.
const LEAST_SHARE: u64 = WHOLE / 32;

/// The share of a node that has not exchanged counts with the store yet.
const FIRST_SHARE: u64 = WHOLE / 4;

/// The units that a node charges to the store at an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Push {
    /// Units that were admitted, to be charged to the limit.
    pub admitted: u64,
    /// Units that were requested, to be charged to the traffic counter.
    pub offered: u64,
}

/// The reply of the store at an exchange: the verdicts of peeks after the charges.
#[derive(Clone, Copy, Debug)]
pub struct Peeks<'v> {
    /// The verdict on the limit.
    pub limit: &'v Verdict,
    /// The verdict on the traffic counter, whose limit is [`traffic_limit`].
    pub traffic: &'v Verdict,
}

/// Returns the limit of the traffic counter. It never denies: it counts the units requested from all nodes in the
/// last second.
///
/// # Panics
/// Never: the numbers are valid.
pub fn traffic_limit() -> Limit {
    Limit::new(Algorithm::SlidingWindow, MAX_COUNT, Window::seconds(1)).expect("valid numbers")
}

/// The state of one synced key on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// This node's share of the traffic, in parts of [`WHOLE`].
    parts: u64,
    /// Units that may be admitted until the next exchange.
    allowance: u64,
    /// Units admitted since the last exchange.
    admitted: u64,
    /// Units requested since the last exchange.
    offered: u64,
    /// The fraction of the requested units that is admitted, in parts of [`WHOLE`], and the remainder from rounding.
    ratio: u64,
    credit: u64,
    /// The units requested from this node in the last second.
    traffic: sliding_window::State,
    /// When the last exchange was, by the node's clock.
    pulled: Micros,
    /// When the current window ends, by the node's clock; only for fixed windows.
    window_end: Micros,
}

impl Share {
    /// Returns the share of a node that has not exchanged counts with the store yet.
    pub fn new(limit: &Limit, now: Micros) -> Self {
        Self {
            parts: FIRST_SHARE,
            allowance: part(limit.burst(), FIRST_SHARE),
            admitted: 0,
            offered: 0,
            ratio: WHOLE,
            credit: 0,
            traffic: sliding_window::State::default(),
            pulled: now,
            window_end: Micros(u64::MAX),
        }
    }

    /// Decides a request, and counts it if it is admitted.
    pub fn decide(&mut self, limit: &Limit, cost: u64, now: Micros) -> bool {
        if now >= self.window_end {
            // A new window began, and all of it is left.
            self.allowance = part(limit.requests(), self.parts);
            self.window_end = Micros(u64::MAX);
            self.ratio = WHOLE;
        }
        self.offered = self.offered.saturating_add(cost);
        self.credit =
            self.credit.saturating_add(cost.saturating_mul(self.ratio)).min(cost.saturating_mul(2 * WHOLE));
        let needed = cost.saturating_mul(WHOLE);
        if cost > self.allowance || self.credit < needed {
            return false;
        }
        self.credit -= needed;
        self.allowance -= cost;
        self.admitted += cost;
        true
    }

    /// Returns the units admitted and requested since the last exchange, to be charged whether they fit or not.
    pub fn push(&mut self) -> Push {
        Push { admitted: std::mem::take(&mut self.admitted), offered: std::mem::take(&mut self.offered) }
    }

    /// Updates the share with the store's reply after it charged `push`, and sets what may be admitted until the next
    /// exchange, `every_us` from now.
    pub fn pull(&mut self, limit: &Limit, push: &Push, peeks: Peeks<'_>, every_us: u64, now: Micros) {
        self.adapt(push.offered, peeks.traffic, now);
        let peek = peeks.limit;
        let owes_us = peek.retry_after_us().unwrap_or(0);
        let left = if peek.allowed() { peek.remaining } else { 0 };
        // Other nodes have admitted units since they last charged: for half an interval on average, a whole one at
        // most. A fixed window would drop the excess, so the maximum is assumed there.
        let others = part(push.admitted, (WHOLE - self.parts) * WHOLE / self.parts);
        let unknown = if limit.algorithm() == Algorithm::FixedWindow { others } else { others / 2 };
        let frees = freed(limit, every_us.saturating_sub(owes_us));
        let left = left.saturating_add(frees).saturating_sub(unknown).min(limit.burst());
        // Units admitted while the exchange was in progress are not in the reply of the store.
        self.allowance = part(left, self.parts).saturating_sub(self.admitted);
        // Room for more requests than there were: the allowance is the bound, not the ratio.
        let ratio =
            u128::from(self.allowance) * u128::from(WHOLE + WHOLE / 16) / u128::from(push.offered.max(1));
        self.ratio = ratio.min(u128::from(WHOLE)) as u64;
        self.pulled = now;
        self.window_end = match limit.algorithm() {
            Algorithm::FixedWindow => now.plus(peek.reset_after_us),
            _ => Micros(u64::MAX),
        };
    }

    /// Sets the share to this node's part of the traffic of the last second.
    fn adapt(&mut self, offered: u64, total: &Verdict, now: Micros) {
        let limit = traffic_limit();
        let mut state = State::SlidingWindow(self.traffic);
        limit.take(&mut state, offered, now);
        let seen = |verdict: &Verdict| MAX_COUNT - verdict.remaining;
        let mine = seen(&limit.assess(&state, 0, now, false));
        if let State::SlidingWindow(state) = state {
            self.traffic = state;
        }
        let all = seen(total).max(mine);
        if all > 0 {
            let share = (u128::from(mine) * u128::from(WHOLE) / u128::from(all)) as u64;
            self.parts = share.max(LEAST_SHARE);
        }
    }

    /// Returns the verdict on a request that was decided.
    pub fn verdict(&self, admitted: bool, every_us: u64, now: Micros) -> Verdict {
        let next_us = self.pulled.plus(every_us).since(now).max(1);
        let outcome = if admitted { Outcome::Allowed } else { Outcome::Denied { retry_after_us: next_us } };
        Verdict { outcome, remaining: self.allowance, reset_after_us: next_us }
    }
}

/// Returns `count * parts / WHOLE`.
fn part(count: u64, parts: u64) -> u64 {
    (u128::from(count) * u128::from(parts) / u128::from(WHOLE)) as u64
}

/// Returns the most units that can become free within `us` microseconds. Fixed windows free none before they end.
fn freed(limit: &Limit, us: u64) -> u64 {
    if limit.algorithm() == Algorithm::FixedWindow {
        return 0;
    }
    let freed = u128::from(limit.requests()) * u128::from(us) / u128::from(limit.period_us());
    freed.min(u128::from(limit.burst())) as u64
}
