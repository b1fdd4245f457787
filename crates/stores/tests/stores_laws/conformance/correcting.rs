//! Putting charges right whose cost was an estimate.

use tidegate_core::{Taken, Verdict};
use tidegate_stores::{Charge, Correction, Store};

use super::World;
use crate::limits;

/// Takes a charge, and says what a refund has to know of it.
async fn reserve<W: World>(world: &W, charge: Charge<'_>) -> (Verdict, Taken) {
    let timed = world.store().settle_timed(&[charge]).await.expect("the store settles");
    let (verdict, at) = (timed.verdicts[0], timed.at[0]);
    assert_eq!(at, world.now());
    (verdict, Taken { at, clear_at: at.plus(verdict.reset_after_us) })
}

async fn correct<W: World>(world: &W, charge: Charge<'_>, correction: Correction) -> Verdict {
    let corrected = world.store().correct(&[(charge, correction)]).await;
    corrected.into_iter().next().expect("one answer").expect("the store corrects")
}

pub(crate) async fn less_than_the_estimate_is_as_if_only_that_was_taken<W: World>(world: W) {
    for limit in limits::charged() {
        for used in 0..limit.burst() {
            let name = format!("{used} of {limit:?}");
            let reserved = world.charge(&name, &limit, limit.burst());
            let direct = world.charge(&format!("direct {name}"), &limit, used);
            let (verdict, taken) = reserve(&world, reserved).await;
            assert!(verdict.allowed(), "{name}");
            let back = Charge { cost: limit.burst() - used, ..reserved };
            let stands = correct(&world, back, Correction::GiveBack(taken)).await;
            world.take(direct).await;
            assert_eq!(stands, world.look(Charge { cost: 0, ..direct }).await, "{name}");
            assert_eq!(world.reading(reserved).await, world.reading(direct).await, "{name}");
        }
    }
}

pub(crate) async fn more_than_the_estimate_is_owed_and_paid_back<W: World>(world: W) {
    for limit in limits::charged() {
        let charge = world.charge(&format!("{limit:?}"), &limit, limit.burst());
        assert!(reserve(&world, charge).await.0.allowed());
        let over = Charge { cost: 3 * limit.burst() + 1, ..charge };
        let stands = correct(&world, over, Correction::Overdraw).await;
        assert_eq!(stands.remaining, 0, "{limit:?}");
        let one = Charge { cost: 1, ..charge };
        let denied = world.take(one).await;
        let wait_us = super::retry_after_us(&denied);
        world.advance_us(wait_us - 1);
        assert!(!world.take(one).await.allowed(), "{limit:?} after {wait_us} us, less one");
        world.advance_us(1);
        assert!(world.take(one).await.allowed(), "{limit:?} after {wait_us} us");
    }
}

pub(crate) async fn what_was_never_charged_can_be_overdrawn<W: World>(world: W) {
    for limit in limits::charged() {
        let charge = world.charge(&format!("{limit:?}"), &limit, limit.burst() + 1);
        correct(&world, charge, Correction::Overdraw).await;
        assert!(!world.take(Charge { cost: 1, ..charge }).await.allowed(), "{limit:?}");
    }
}

pub(crate) async fn a_window_that_is_over_gives_nothing_to_the_next<W: World>(world: W) {
    for limit in [limits::fixed_window(5), limits::sub_windows(5), limits::sliding_log(5)] {
        let charge = world.charge(&format!("{limit:?}"), &limit, 5);
        let (_, taken) = reserve(&world, charge).await;
        world.advance_us(limits::PERIOD_US);
        assert!(world.take(Charge { cost: 3, ..charge }).await.allowed(), "{limit:?}");
        let stands = correct(&world, charge, Correction::GiveBack(taken)).await;
        assert_eq!(stands.remaining, 2, "{limit:?}");
    }
}

/// The window before weighs less and less; what goes back to it weighs as much.
pub(crate) async fn a_sliding_window_gives_back_to_the_window_it_was_taken_in<W: World>(world: W) {
    let limit = limits::sliding_window(100);
    let period_us = limits::PERIOD_US;
    let charge = world.charge("k", &limit, 80);
    world.advance_us(period_us - world.now().0 % period_us);
    let (_, taken) = reserve(&world, charge).await;
    world.advance_us(period_us * 3 / 2);
    assert_eq!(world.look(Charge { cost: 0, ..charge }).await.remaining, 60);
    assert!(world.take(Charge { cost: 60, ..charge }).await.allowed());
    let stands = correct(&world, Charge { cost: 40, ..charge }, Correction::GiveBack(taken)).await;
    assert_eq!(stands.remaining, 20, "half of it counts");
}

pub(crate) async fn a_look_answers_and_changes_nothing<W: World>(world: W) {
    for limit in limits::charged() {
        let charge = world.charge(&format!("{limit:?}"), &limit, 1);
        world.take(charge).await;
        let before = world.reading(charge).await;
        let stands = correct(&world, charge, Correction::Look).await;
        assert_eq!(stands, world.look(Charge { cost: 0, ..charge }).await, "{limit:?}");
        assert_eq!(world.reading(charge).await, before, "{limit:?}");
    }
}
