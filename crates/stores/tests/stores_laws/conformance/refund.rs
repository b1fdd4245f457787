//! Giving back.

use tidegate_core::MAX_COUNT;
use tidegate_stores::Charge;

use super::World;
use crate::limits::{self, fits_at_once};

pub(crate) async fn a_refund_makes_room_for_what_was_taken<W: World>(world: W) {
    for limit in limits::charged() {
        for cost in 1..=limit.burst() {
            let charge = world.charge(&format!("{cost} of {limit:?}"), &limit, 1);
            let charge = Charge { hold: true, ..charge };
            // Not from full, so that it matters how much comes back.
            if limit.burst() > cost {
                world.take(Charge { cost: limit.burst() - cost, ..charge }).await;
            }
            let before = world.reading(charge).await;
            assert!(world.take(Charge { cost, ..charge }).await.allowed());
            assert_ne!(world.reading(charge).await, before, "{cost} of {limit:?}");
            world.give_back(&[Charge { cost, ..charge }]).await;
            assert_eq!(world.reading(charge).await, before, "{cost} of {limit:?}");
        }
    }
}

pub(crate) async fn a_refund_never_fills_above_full<W: World>(world: W) {
    for limit in limits::charged() {
        let charge = world.charge(&format!("{limit:?}"), &limit, 1);
        for refund in [1, 2, 100, u64::MAX] {
            world.fill(charge).await;
            let costs = [refund, limit.burst(), 1];
            let refunds = costs.map(|cost| Charge { cost, ..charge });
            world.give_back(&refunds).await;
            assert_eq!(world.fill(charge).await, fits_at_once(&limit), "{limit:?}, {refund} refunded");
        }
    }
}

pub(crate) async fn a_refund_of_a_counter_that_is_not_there_does_nothing<W: World>(world: W) {
    for limit in limits::every() {
        let charge = world.charge(&format!("{limit:?}"), &limit, 3);
        let before = world.reading(charge).await;
        world.give_back(&[charge, charge]).await;
        assert_eq!(world.reading(charge).await, before, "{limit:?}");
        assert_eq!(world.fill(charge).await, fits_at_once(&limit), "{limit:?}");
    }
}

/// Two windows that slide hold more than any limit allows, and more than the numbers of scripts are exact for.
pub(crate) async fn a_refund_of_more_than_was_ever_taken_leaves_nothing<W: World>(world: W) {
    let limit = limits::sliding_window(MAX_COUNT);
    let charge = world.charge("k", &limit, 2);
    world.advance_us(limits::PERIOD_US - world.now().0 % limits::PERIOD_US);
    assert!(world.take(charge).await.allowed());
    world.advance_us(limits::PERIOD_US * 3 / 2);
    // One of the two counts.
    assert!(world.take(Charge { cost: MAX_COUNT - 1, ..charge }).await.allowed());
    world.give_back(&[Charge { cost: u64::MAX, ..charge }]).await;
    assert_eq!(world.look(Charge { cost: 0, ..charge }).await.remaining, MAX_COUNT);
}
