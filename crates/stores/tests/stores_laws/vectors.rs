//! The golden vectors of every algorithm, through the stores.

use tidegate_core::Micros;
use tidegate_stores::{Charge, Intent};
use tidegate_testkit::vector::{Expect, Op, Vector, load};

use crate::conformance::{World, one};
#[cfg(feature = "redis")]
use crate::redis::world::RedisWorld;
use crate::world::MemoryWorld;

const ALGORITHMS: [&str; 7] = [
    "fixed_window",
    "sliding_window",
    "sub_windows",
    "sliding_log",
    "token_bucket",
    "leaky_bucket",
    "concurrency",
];

/// Goes through a vector; answers how many steps were compared.
async fn reproduces<W: World>(world: &W, vector: &Vector, number: usize) -> usize {
    let mut limit = vector.limit.limit();
    let key = world.named(&format!("{number} {}", vector.name));
    let mut compared = 0;
    for (index, step) in vector.steps.iter().enumerate() {
        world.set_now(Micros(step.at_us));
        let charge = |cost| Charge { lease: step.id.unwrap_or(0), ..Charge::new(key, &limit, cost) };
        let cost = step.cost.unwrap_or(0);
        let answer = match step.op {
            Op::Relimit => {
                limit = step.limit.as_ref().expect("a relimit has a limit").limit();
                continue;
            }
            Op::Charge | Op::Acquire => Expect::from(world.take(charge(cost)).await),
            Op::Hold => Expect::from(world.take(Charge { hold: true, ..charge(cost) }).await),
            Op::Peek => Expect::from(world.take(charge(0)).await),
            Op::Take => {
                world.take(Charge { count_denied: true, ..charge(cost) }).await;
                Expect::from(one(&world.settle_as(&[charge(0)], Intent::Look).await))
            }
            Op::Refund => {
                world.give_back(&[charge(cost)]).await;
                Expect::from(one(&world.settle_as(&[charge(0)], Intent::Look).await))
            }
            Op::Renew => Expect::whether(world.renew(&charge(1)).await),
            Op::Release => Expect::whether(world.release(&charge(1)).await),
        };
        assert_eq!(Some(answer), step.expect, "{} step {index}: {step:?}", vector.name);
        compared += 1;
    }
    compared
}

fn all_are_reproduced<W: World>(world: impl Fn() -> W) {
    for algorithm in ALGORITHMS {
        let vectors = load(algorithm);
        let world = world();
        let compare = async {
            let mut compared = 0;
            for (number, vector) in vectors.iter().enumerate() {
                compared += reproduces(&world, vector, number).await;
            }
            compared
        };
        let compared = pollster::block_on(compare);
        assert!(compared > 50, "{algorithm} has more steps than {compared}");
    }
}

#[test]
fn memory_reproduces_every_vector() {
    all_are_reproduced(MemoryWorld::new);
}

#[cfg(feature = "redis")]
#[test]
fn the_scripts_reproduce_every_vector_on_redis() {
    all_are_reproduced(RedisWorld::single);
}

#[cfg(feature = "redis")]
#[test]
fn the_scripts_reproduce_every_vector_on_valkey() {
    all_are_reproduced(RedisWorld::valkey);
}
