//! However many reserve at once, a budget is overdrawn by no more than their estimates were too low.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use tidegate::{Reserved, per, per_hour};

use super::{MINUTE, reserve, settle};
use crate::support::{by, left, limited_by};

const BUDGET: u64 = 100_000;

#[test]
fn fifty_at_once_overdraw_a_budget_by_no_more_than_their_estimates_were_wrong() {
    for limit in [
        per_hour(BUDGET).fixed_window(),
        per_hour(BUDGET).sliding_window(),
        per_hour(BUDGET).sub_windows(60),
        per_hour(BUDGET).sliding_log(),
        per_hour(BUDGET).token_bucket(),
    ] {
        let (limiter, _) = limited_by(limit.clone());
        let (used, too_low) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for worker in 0..50_u64 {
                let (limiter, used, too_low) = (&limiter, &used, &too_low);
                scope.spawn(move || {
                    for round in 0..40_u64 {
                        // Estimates from 500 to 1500, true costs from 0 to twice as much.
                        let estimate = 500 + (worker * 7_919 + round * 104_729) % 1_000;
                        let cost = estimate * ((worker * 31 + round * 17) % 9) / 4;
                        let reserved = limiter.reserve_now(&by("v").cost(estimate), MINUTE);
                        if let Ok(Reserved::Reservation(reservation)) = reserved {
                            thread::yield_now();
                            settle(limiter, &reservation, cost);
                            used.fetch_add(cost, Ordering::Relaxed);
                            too_low.fetch_add(cost.saturating_sub(estimate), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let (used, too_low) = (used.into_inner(), too_low.into_inner());
        assert!(used <= BUDGET + too_low, "{used} of {BUDGET}, {too_low} more than estimated: {limit:?}");
        assert!(used > BUDGET / 2, "{used} of {BUDGET}: the budget was worth something");
        assert_eq!(limiter.reservations(), 0);
    }
}

/// A plain ledger: what is charged, and when.
struct Ledger {
    budget: u64,
    charged: u64,
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(200))]

    /// Reservations are settled in any order, at any cost, or not at all. The time stands still, so that
    /// every algorithm is a ledger.
    #[test]
    fn every_algorithm_keeps_the_ledger(
        algorithm in 0..5_usize,
        steps in prop::collection::vec((any::<prop::sample::Index>(), 0..40_u64, 0..80_u64), 1..80),
    ) {
        let limit = per(100, MINUTE);
        let limits = [
            limit.clone().fixed_window(), limit.clone().sliding_window(), limit.clone().sub_windows(6),
            limit.clone().sliding_log(), limit.token_bucket(),
        ];
        let (limiter, _) = limited_by(limits[algorithm].clone());
        let mut ledger = Ledger { budget: 100, charged: 0 };
        let mut open = Vec::new();
        for (which, estimate, cost) in steps {
            if which.index(3) == 0 && !open.is_empty() {
                let (reservation, estimate) = open.swap_remove(which.index(open.len()));
                settle(&limiter, &reservation, cost);
                ledger.charged = ledger.charged - estimate + cost;
            } else if ledger.charged + estimate <= ledger.budget {
                open.push((reserve(&limiter, &by("v").cost(estimate)), estimate));
                ledger.charged += estimate;
            } else {
                let reserved = limiter.reserve_now(&by("v").cost(estimate), MINUTE);
                prop_assert!(matches!(reserved, Ok(Reserved::Denied(_))), "{estimate} of {}", ledger.charged);
            }
            prop_assert_eq!(left(&limiter, &by("v")), [ledger.budget.saturating_sub(ledger.charged)]);
        }
    }
}
