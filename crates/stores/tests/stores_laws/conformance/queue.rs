//! Leaky buckets that hold.

use tidegate_core::{Micros, Outcome};
use tidegate_stores::Charge;

use super::{World, retry_after_us};
use crate::limits::{PERIOD_US, queue};

pub(crate) async fn a_queue_holds_for_as_long_as_it_takes_to_drain<W: World>(world: W) {
    let limit = queue(4, 8);
    let spacing_us = PERIOD_US / 4;
    let charge = Charge { hold: true, ..world.charge("held", &limit, 1) };
    let mut leaves: Vec<Micros> = Vec::new();
    for step in 0..30 {
        let wait_us = match world.take(charge).await.outcome {
            Outcome::Allowed => Some(0),
            Outcome::Held { wait_us } => Some(wait_us),
            Outcome::Denied { .. } => None,
        };
        leaves.extend(wait_us.map(|us| world.now().plus(us)));
        world.advance_us(step * step % 5 * spacing_us / 3);
    }
    assert!(leaves.len() > 8);
    for pair in leaves.windows(2) {
        assert!(pair[1].since(pair[0]) >= spacing_us, "what comes out is evenly spaced: {pair:?}");
    }
}

pub(crate) async fn who_cannot_hold_is_denied_for_as_long_and_takes_nothing<W: World>(world: W) {
    let limit = queue(4, 8);
    let held = Charge { hold: true, ..world.charge("held", &limit, 1) };
    world.take(held).await;
    world.advance_us(PERIOD_US / 10);
    let before = world.reading(held).await;
    let Outcome::Held { wait_us } = world.look(held).await.outcome else { panic!("it has to wait") };
    let denied = world.take(Charge { hold: false, ..held }).await;
    assert_eq!(retry_after_us(&denied), wait_us);
    assert_eq!(world.reading(held).await, before);
    let beside = queue(1, 1);
    let request = [Charge { hold: false, ..held }, world.charge("beside", &beside, 1)];
    let verdicts = world.settle(&request).await;
    assert_eq!(retry_after_us(&verdicts[0]), wait_us, "in a request of several too");
    assert!(world.take(request[1]).await.allowed(), "and nothing else is taken");
    world.advance_us(wait_us - 1);
    assert!(!world.take(Charge { hold: false, ..held }).await.allowed());
    world.advance_us(1);
    assert!(world.take(Charge { hold: false, ..held }).await.allowed());
}

pub(crate) async fn a_full_queue_denies<W: World>(world: W) {
    let limit = queue(4, 8);
    let charge = Charge { hold: true, ..world.charge("full", &limit, 1) };
    assert_eq!(world.fill(charge).await, 8);
    let denied = world.take(charge).await;
    assert_eq!(retry_after_us(&denied), PERIOD_US / 4, "when the first has left");
    world.advance_us(PERIOD_US / 4);
    assert_eq!(world.take(charge).await.outcome, Outcome::Held { wait_us: 7 * PERIOD_US / 4 });
}
