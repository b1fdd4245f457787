//! Concurrency: acquire, renew, release.

use tidegate_stores::Charge;

use super::{World, retry_after_us};
use crate::limits::{PERIOD_US, concurrency, fixed_window};

pub(crate) async fn at_most_max_slots_are_held<W: World>(world: W) {
    let limit = concurrency(3);
    let held: Vec<_> = (0..3).map(|_| world.charge("key", &limit, 1)).collect();
    for (slot, left) in held.iter().zip([2, 1, 0]) {
        let verdict = world.take(*slot).await;
        assert!(verdict.allowed());
        assert_eq!(verdict.remaining, left);
        world.advance_us(1_000);
    }
    let denied = world.take(world.charge("key", &limit, 1)).await;
    assert_eq!(retry_after_us(&denied), PERIOD_US - 3_000, "when the oldest would run out");
    assert!(!world.take(world.charge("key", &limit, 2)).await.allowed());
}

pub(crate) async fn a_released_slot_is_free_at_once<W: World>(world: W) {
    let limit = concurrency(3);
    let (one, two) = (world.charge("key", &limit, 1), world.charge("key", &limit, 2));
    world.settle(&[one, two]).await;
    let next = world.charge("key", &limit, 2);
    assert!(!world.take(next).await.allowed());
    assert!(world.release(&two).await);
    assert!(world.take(next).await.allowed(), "both of its slots are free");
    assert!(!world.release(&two).await, "it has been returned");
    assert!(world.release(&one).await);
    assert!(world.release(&next).await);
    assert_eq!(world.look(Charge { cost: 0, ..one }).await.remaining, 3);
    assert!(!world.release(&world.charge("nobody", &limit, 1)).await);
}

pub(crate) async fn a_slot_nobody_renews_returns_after_its_timeout<W: World>(world: W) {
    let limit = concurrency(1);
    world.take(world.charge("key", &limit, 1)).await;
    world.advance_us(PERIOD_US - 1);
    assert!(!world.take(world.charge("key", &limit, 1)).await.allowed());
    world.advance_us(1);
    assert!(world.take(world.charge("key", &limit, 1)).await.allowed());
}

pub(crate) async fn a_renewed_slot_stays_held<W: World>(world: W) {
    let limit = concurrency(1);
    let slot = world.charge("key", &limit, 1);
    world.take(slot).await;
    for _ in 0..5 {
        world.advance_us(PERIOD_US - 1);
        assert!(world.renew(&slot).await);
        assert!(!world.take(world.charge("key", &limit, 1)).await.allowed());
    }
    world.advance_us(PERIOD_US);
    assert!(world.take(world.charge("key", &limit, 1)).await.allowed());
}

pub(crate) async fn a_slot_that_has_returned_can_neither_be_renewed_nor_released<W: World>(mut world: W) {
    let limit = concurrency(2);
    for swept in [false, true] {
        let (late, later) = (world.charge("key", &limit, 1), world.charge("key", &limit, 1));
        world.settle(&[late, later]).await;
        world.advance_us(PERIOD_US);
        if swept {
            world.upheaval();
        }
        assert!(!world.renew(&late).await);
        assert!(!world.release(&later).await);
        let taken = [world.charge("key", &limit, 1), world.charge("key", &limit, 1)];
        assert!(world.settle(&taken).await.iter().all(tidegate_core::Verdict::allowed));
        assert!(!world.release(&late).await, "nothing is taken from those who came after");
        assert!(!world.take(world.charge("key", &limit, 1)).await.allowed());
        assert!(world.release(&taken[0]).await && world.release(&taken[1]).await);
    }
}

pub(crate) async fn slots_and_charges_are_taken_together_or_not_at_all<W: World>(world: W) {
    let (limit, once) = (concurrency(1), fixed_window(1));
    let slot = world.charge("slot", &limit, 1);
    let first = [slot, world.charge("once", &once, 1)];
    assert!(world.settle(&first).await.iter().all(tidegate_core::Verdict::allowed));
    assert!(world.release(&slot).await);
    let second = [world.charge("slot", &limit, 1), world.charge("once", &once, 1)];
    assert!(!world.settle(&second).await[1].allowed());
    assert!(!world.release(&second[0]).await, "the slot was not taken");
    world.advance_us(PERIOD_US);
    assert!(world.take(world.charge("slot", &limit, 1)).await.allowed());
    assert!(!world.settle(&second).await[0].allowed());
    assert_eq!(world.look(Charge { cost: 0, ..second[1] }).await.remaining, 1, "nor the charge");
}
