//! Requests that go to a server in one call of the script, decision by decision beside the [`Model`].

use futures_util::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use proptest::test_runner::{Config, TestRunner};
use tidegate_core::{Key, Limit, Micros};
use tidegate_stores::{Charge, Intent, Store};
use tidegate_testkit::schedule::{self, Action, Mix, Schedule, Step};
use tokio::runtime::Runtime;

use super::world::RedisWorld;
use crate::agreement::{Beside, LATEST_US, any_limits, beside, soak};
use crate::conformance::World;
use crate::model::Model;

const KEYS: usize = 6;
const BATCHES: usize = 8;

/// Counters, and batches of requests that are charged to them.
#[derive(Clone, Debug)]
struct Life {
    limits: Vec<Limit>,
    /// How much time passes before each batch, and which limits change.
    schedule: Schedule,
    batches: Vec<Vec<Request>>,
}

#[derive(Clone, Debug)]
enum Request {
    Settle(Vec<Beside>, Intent),
    GiveBack(Vec<Beside>),
}

/// Every charge enforced and of the same cost, each to another counter: what most requests are.
fn plain() -> impl Strategy<Value = Request> {
    let keys = subsequence((0..KEYS).collect::<Vec<_>>(), 1..=3);
    (keys, 0_u64..3).prop_map(|(keys, cost)| {
        Request::Settle(keys.into_iter().map(|key| Beside::plain(key, cost)).collect(), Intent::Take)
    })
}

fn requests() -> impl Strategy<Value = Request> {
    let charges = || vec(beside(KEYS), 1..5);
    prop_oneof![
        8 => plain(),
        4 => charges().prop_map(|charges| Request::Settle(charges, Intent::Take)),
        1 => charges().prop_map(|charges| Request::Settle(charges, Intent::Look)),
        1 => vec(beside(KEYS), 1..3).prop_map(Request::GiveBack),
    ]
}

fn lives() -> impl Strategy<Value = Life> {
    let batches = vec(vec(requests(), 1..40), BATCHES);
    (vec(any_limits(), KEYS), schedule::schedules(Mix::Changes, BATCHES), batches)
        .prop_map(|(limits, schedule, batches)| Life { limits, schedule, batches })
}

/// What the model says to each request of a batch: what is given back comes first, then those look that only
/// look, and then the others are settled in order.
fn expected(
    model: &mut Model,
    batch: &[(Vec<Charge<'_>>, Option<Intent>)],
    now: Micros,
) -> Vec<Option<tidegate_stores::Verdicts>> {
    for (charges, _) in batch.iter().filter(|(_, intent)| intent.is_none()) {
        model.give_back(charges, now);
    }
    let before = model.clone();
    let mut verdict = |(charges, intent): &(Vec<Charge<'_>>, Option<Intent>)| match intent {
        None => None,
        Some(Intent::Look) => Some(before.clone().settle(charges, Intent::Look, now)),
        Some(Intent::Take) => Some(model.settle(charges, Intent::Take, now)),
    };
    batch.iter().map(&mut verdict).collect()
}

/// Nothing else runs on the runtime's only thread until every request has been handed over, so all of them are
/// in one batch.
async fn agrees(world: &RedisWorld, life: Life) {
    let mut model = Model::default();
    let Life { mut limits, schedule, batches } = life;
    let keys: Vec<Key> = (0..KEYS).map(|number| world.named(&number.to_string())).collect();
    world.set_now(Micros(schedule.start.0.min(LATEST_US)));
    let mut lease = 0;
    for (number, (Step { advance, action }, requests)) in schedule.steps.into_iter().zip(batches).enumerate()
    {
        let changed = number % KEYS;
        if let Action::Relimit(numbers) = action
            && let Some(limit) = numbers.apply(&limits[changed])
            && limit.family() == limits[changed].family()
        {
            limits[changed] = limit;
        }
        let now = advance.from(&limits[changed], world.now(), world.now());
        world.set_now(Micros(now.0.min(LATEST_US)));
        let now = world.now();
        let batch: Vec<_> = requests
            .into_iter()
            .map(|request| {
                lease += 1;
                let (charges, intent) = match request {
                    Request::Settle(charges, intent) => (charges, Some(intent)),
                    Request::GiveBack(charges) => (charges, None),
                };
                let charge = |beside: &Beside| beside.charge(&keys, &limits, lease);
                (charges.iter().map(charge).collect::<Vec<_>>(), intent)
            })
            .collect();
        let results = join_all(batch.iter().map(async |(charges, intent)| {
            if let Some(intent) = intent {
                return Some(world.settle_as(charges, *intent).await);
            }
            world.store().give_back(charges).await.expect("given back");
            None
        }))
        .await;
        for (at, (result, expected)) in results.iter().zip(expected(&mut model, &batch, now)).enumerate() {
            assert_eq!(*result, expected, "request {at} of batch {number} at {now:?}: {batch:#?}");
        }
    }
}

#[test]
fn requests_of_one_batch_are_settled_in_order_and_all_or_nothing() {
    let runtime: Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let config = Config { cases: 100 * soak(), failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&lives(), |life| {
        runtime.block_on(agrees(&RedisWorld::single(), life));
        Ok(())
    });
    if let Err(broken) = outcome {
        panic!("{broken}");
    }
}
