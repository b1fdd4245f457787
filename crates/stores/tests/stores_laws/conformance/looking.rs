//! Peeks and looks.

use tidegate_stores::{Charge, Intent};

use super::World;
use crate::limits;

pub(crate) async fn a_peek_changes_nothing<W: World>(world: W) {
    for limit in limits::every() {
        let charge = world.charge(&format!("{limit:?}"), &limit, 1);
        let peek = Charge { cost: 0, ..charge };
        loop {
            let before = world.reading(charge).await;
            let seen = world.take(peek).await;
            assert!(seen.allowed(), "a limit that is not overdrawn can be peeked at");
            assert_eq!(seen, world.look(peek).await, "{limit:?}");
            assert_eq!(world.reading(charge).await, before, "{limit:?}");
            if !world.take(charge).await.allowed() {
                break;
            }
        }
    }
}

pub(crate) async fn a_look_changes_nothing_and_answers_what_a_charge_would<W: World>(world: W) {
    let limits = limits::every();
    for (index, limit) in limits.iter().enumerate() {
        let other = &limits[(index + 1) % limits.len()];
        let of_one = [world.charge(&format!("one {limit:?}"), limit, 1)];
        let of_two = [
            world.charge(&format!("two {limit:?}"), limit, 1),
            world.charge(&format!("two {other:?}"), other, 2),
        ];
        for request in [&of_one[..], &of_two[..]] {
            for step in 0..8 {
                let request: Vec<_> = request
                    .iter()
                    .map(|charge| Charge { lease: step, hold: step % 2 > 0, ..*charge })
                    .collect();
                let first = world.settle_as(&request, Intent::Look).await;
                let second = world.settle_as(&request, Intent::Look).await;
                assert_eq!(first, second, "{limit:?} in step {step}");
                let taken = world.settle(&request).await;
                assert_eq!(first, taken, "{limit:?} in step {step}");
            }
        }
    }
}
