//! A limit whose numbers change keeps its counter.

use tidegate_core::{Algorithm, Limit};
use tidegate_stores::Charge;

use super::{World, retry_after_us};
use crate::limits;

/// The same limit with `more` requests and burst.
fn changed(limit: &Limit, more: i64) -> Limit {
    let plus = |number: u64| number.saturating_add_signed(more);
    let algorithm = match limit.algorithm() {
        Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: plus(burst) },
        Algorithm::LeakyBucket { burst, mode } => Algorithm::LeakyBucket { burst: plus(burst), mode },
        other => other,
    };
    Limit::new(algorithm, plus(limit.requests()), limit.window().clone()).expect("small numbers")
}

/// Limits that can be lowered by two.
fn roomy() -> Vec<Limit> {
    limits::every().into_iter().filter(|limit| limit.burst() > 2).collect()
}

pub(crate) async fn a_raised_limit_has_room_at_once<W: World>(world: W) {
    for limit in limits::every() {
        let charge = |limit| Charge { hold: true, ..world.charge(&format!("{limit:?}"), limit, 1) };
        let charge = charge(&limit);
        assert_eq!(world.fill(charge).await, limit.burst());
        for (more, room) in [(1, 1), (4, 3)] {
            let raised = changed(&limit, more);
            let fitted = world.fill(Charge { limit: &raised, lease: charge.lease + 100, ..charge }).await;
            assert_eq!(fitted, room, "{limit:?} raised by {more}");
        }
    }
}

pub(crate) async fn a_lowered_limit_keeps_what_was_taken<W: World>(world: W) {
    for limit in roomy() {
        let lowered = changed(&limit, -2);
        let charge = Charge { hold: true, ..world.charge(&format!("{limit:?}"), &limit, 1) };
        world.take(Charge { cost: limit.burst() - 2, ..charge }).await;
        let lower = Charge { limit: &lowered, ..charge };
        assert_eq!(world.look(Charge { cost: 0, ..lower }).await.remaining, 0, "{limit:?}");
        assert!(!world.take(lower).await.allowed(), "{limit:?}");
        world.take(Charge { cost: 2, lease: charge.lease + 100, ..charge }).await;
        let overdrawn = world.take(lower).await;
        assert!(!overdrawn.allowed(), "{limit:?}");
        assert_eq!(overdrawn.remaining, 0, "never below nothing: {limit:?}");
        world.advance_us(8 * limit.period_us());
        let lower = Charge { lease: charge.lease + 200, ..lower };
        assert_eq!(world.fill(lower).await, lowered.burst(), "{limit:?}");
    }
}

pub(crate) async fn a_lowered_limit_says_exactly_when_it_has_room_again<W: World>(world: W) {
    for limit in roomy() {
        for cost in 1..=limit.burst() - 2 {
            let lowered = changed(&limit, -2);
            let charge = world.charge(&format!("{cost} of {limit:?}"), &limit, cost);
            world.fill(charge).await;
            world.advance_us(limits::PERIOD_US / 9);
            let lower = Charge { limit: &lowered, ..charge };
            let retry_us = retry_after_us(&world.take(lower).await);
            world.advance_us(retry_us - 1);
            assert_eq!(retry_after_us(&world.take(lower).await), 1, "{cost} of {limit:?}");
            world.advance_us(1);
            assert!(world.take(lower).await.allowed(), "{cost} of {limit:?}");
        }
    }
}

pub(crate) async fn a_limit_lowered_and_raised_again_has_forgotten_nothing<W: World>(world: W) {
    for limit in roomy() {
        let lowered = changed(&limit, -2);
        let charge = Charge { hold: true, ..world.charge(&format!("{limit:?}"), &limit, 1) };
        world.fill(charge).await;
        let before = world.reading(charge).await;
        let lower = Charge { limit: &lowered, ..charge };
        assert!(!world.look(lower).await.allowed());
        // A bucket that was charged meanwhile is a smaller one: what it could not hold is gone.
        if !limit.algorithm().name().ends_with("bucket") {
            assert!(!world.take(lower).await.allowed());
        }
        assert_eq!(world.reading(charge).await, before, "{limit:?}");
    }
}
