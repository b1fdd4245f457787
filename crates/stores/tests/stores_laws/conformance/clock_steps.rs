//! A clock that jumps.

use tidegate_core::Limit;
use tidegate_stores::Charge;

use super::World;
use crate::limits::{self, fits_at_once};

fn steps_us(limit: &Limit) -> Vec<u64> {
    let us = limit.period_us();
    vec![1, us / 3, us - 1, us, us + 1, 2 * us, 5 * us, 1_000 * us]
}

/// How long until a full limit is untouched again, at most.
fn drains_us(limit: &Limit) -> u64 {
    2 * limit.period_us().max(limit.period_us() * limit.burst() / limit.requests())
}

pub(crate) async fn a_step_back_admits_at_most_one_more_limit<W: World>(world: W) {
    for limit in limits::every() {
        for back_us in steps_us(&limit) {
            let charge = world.charge(&format!("{back_us} {limit:?}"), &limit, 1);
            let fits = fits_at_once(&limit);
            assert_eq!(world.fill(charge).await, fits);
            let before = world.now();
            world.set_now(before.minus(back_us));
            let again = world.fill(Charge { lease: charge.lease + 500, ..charge }).await;
            assert!(again <= fits, "{again} more of {limit:?} after a step back by {back_us} us");
            let denied = world.take(Charge { lease: charge.lease + 900, ..charge }).await;
            assert!(!denied.allowed(), "{limit:?} is full again");
            world.set_now(before);
        }
    }
}

pub(crate) async fn a_step_back_locks_nobody_out_for_longer_than_a_window<W: World>(world: W) {
    for limit in limits::every() {
        for back_us in steps_us(&limit) {
            let charge = world.charge(&format!("{back_us} {limit:?}"), &limit, 1);
            world.fill(charge).await;
            let before = world.now();
            world.set_now(before.minus(back_us));
            let longest_us = if limit.algorithm().name().ends_with("bucket") {
                drains_us(&limit)
            } else {
                limit.period_us()
            };
            let charge = Charge { lease: charge.lease + 500, ..charge };
            let verdict = world.take(charge).await;
            if let Some(retry_us) = verdict.retry_after_us() {
                assert!(retry_us <= longest_us, "{retry_us} us for {limit:?} after {back_us} us back");
                world.advance_us(retry_us);
                assert!(world.take(charge).await.allowed(), "{limit:?} after {back_us} us back");
            }
            world.set_now(before);
        }
    }
}

pub(crate) async fn a_step_forward_admits_at_most_one_more_limit<W: World>(world: W) {
    for limit in limits::every() {
        for forward_us in steps_us(&limit) {
            let charge = world.charge(&format!("{forward_us} {limit:?}"), &limit, 1);
            let fits = fits_at_once(&limit);
            assert_eq!(world.fill(charge).await, fits);
            let before = world.now();
            world.set_now(before.plus(forward_us));
            let ahead = world.fill(Charge { lease: charge.lease + 500, ..charge }).await;
            assert!(ahead <= fits, "{ahead} of {limit:?} after {forward_us} us");
            world.set_now(before);
            let back = world.fill(Charge { lease: charge.lease + 900, ..charge }).await;
            assert!(back <= fits, "{back} of {limit:?} back from {forward_us} us ahead");
        }
    }
}
