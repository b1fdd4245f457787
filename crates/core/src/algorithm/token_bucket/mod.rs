//! Tokens that refill steadily up to `burst`. GCRA is the same function with another story.
//!
//! Promises: in any time `t`, at most `burst + t x requests / period` pass.

use super::arrival::{State, capacity};
use crate::wide::{clamp, div_ceil, div_floor, mul};
use crate::{Limit, Micros, NEVER_US, Outcome, Verdict};

/// What would become of a charge.
#[inline]
pub fn assess(limit: &Limit, state: &State, cost: u64, now: Micros) -> Verdict {
    let (requests, period_us) = (limit.requests(), limit.period_us());
    if requests == 0 {
        return never_refills(cost);
    }
    let capacity = capacity(limit);
    let debt = state.debt(limit, now);
    let after = debt + mul(cost, period_us);
    if after <= capacity {
        return Verdict {
            outcome: Outcome::Allowed,
            remaining: clamp(div_floor(capacity - after, period_us)),
            reset_after_us: clamp(div_ceil(after, requests)),
        };
    }
    let retry_after_us =
        if cost > limit.burst() { NEVER_US } else { clamp(div_ceil(after - capacity, requests)) };
    Verdict {
        outcome: Outcome::Denied { retry_after_us },
        remaining: clamp(div_floor(capacity - debt, period_us)),
        reset_after_us: clamp(div_ceil(debt, requests)),
    }
}

/// Zero requests is a limit that denies everything, whatever its burst.
pub(super) fn never_refills(cost: u64) -> Verdict {
    let outcome = if cost == 0 { Outcome::Allowed } else { Outcome::Denied { retry_after_us: NEVER_US } };
    Verdict { outcome, remaining: 0, reset_after_us: 0 }
}
