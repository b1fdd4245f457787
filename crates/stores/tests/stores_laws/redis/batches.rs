//! Requests that go to a server in one call of the script, decision by decision beside the [`Model`].

use futures_util::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use proptest::test_runner::{Config, TestRunner};
use tidegate_core::{Algorithm, Key, Limit, MAX_COUNT, Micros, Verdict, Window};
use tidegate_stores::{Charge, Intent, Verdicts};
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
    TakeUpTo(Beside),
    GiveBack(Vec<Beside>),
}

/// What becomes of a request: units granted and verdicts.
type Outcome = (u64, Verdicts);

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
        2 => beside(KEYS).prop_map(Request::TakeUpTo),
        1 => vec(beside(KEYS), 1..3).prop_map(Request::GiveBack),
    ]
}

fn lives() -> impl Strategy<Value = Life> {
    let batches = vec(vec(requests(), 1..40), BATCHES);
    (vec(any_limits(), KEYS), schedule::schedules(Mix::Changes, BATCHES), batches)
        .prop_map(|(limits, schedule, batches)| Life { limits, schedule, batches })
}

/// How the charges of a request are settled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Settle(Intent),
    TakeUpTo,
    GiveBack,
}

/// What the model says to each request of a batch: what is given back comes first, then those look that only
/// look, and then the others are settled in order.
fn expected(model: &mut Model, batch: &[(Vec<Charge<'_>>, How)], now: Micros) -> Vec<Outcome> {
    for (charges, _) in batch.iter().filter(|(_, how)| *how == How::GiveBack) {
        model.give_back(charges, now);
    }
    let before = model.clone();
    let mut outcome = |(charges, how): &(Vec<Charge<'_>>, How)| match how {
        How::GiveBack => (0, Verdicts::new()),
        How::Settle(Intent::Look) => (0, before.clone().settle(charges, Intent::Look, now)),
        How::Settle(Intent::Take) => (0, model.settle(charges, Intent::Take, now)),
        How::TakeUpTo => {
            let (units, verdict) = model.take_up_to(&charges[0], now);
            (units, Verdicts::from_elem(verdict, 1))
        }
    };
    batch.iter().map(&mut outcome).collect()
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
                let charge = |beside: &Beside| beside.charge(&keys, &limits, lease);
                let all = |charges: &[Beside]| charges.iter().map(charge).collect::<Vec<_>>();
                match request {
                    Request::Settle(charges, intent) => (all(&charges), How::Settle(intent)),
                    Request::GiveBack(charges) => (all(&charges), How::GiveBack),
                    Request::TakeUpTo(beside) => {
                        let Charge { key, limit, cost, .. } = charge(&beside);
                        let how =
                            if limit.is_divisible() { How::TakeUpTo } else { How::Settle(Intent::Look) };
                        (vec![Charge::new(key, limit, cost)], how)
                    }
                }
            })
            .collect();
        let results = join_all(batch.iter().map(async |(charges, how)| match how {
            How::Settle(intent) => (0, world.settle_as(charges, *intent).await),
            How::TakeUpTo => {
                let grant = world.take_up_to(charges[0]).await;
                (grant.units, Verdicts::from_elem(grant.verdict, 1))
            }
            How::GiveBack => {
                world.give_back(charges).await;
                (0, Verdicts::new())
            }
        }))
        .await;
        for (at, (result, expected)) in results.iter().zip(expected(&mut model, &batch, now)).enumerate() {
            assert_eq!(*result, expected, "request {at} of batch {number} at {now:?}: {batch:#?}");
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn requests_of_one_batch_are_settled_in_order_and_all_or_nothing() {
    let runtime = runtime();
    let config = Config { cases: 100 * soak(), failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&lives(), |life| {
        runtime.block_on(agrees(&RedisWorld::single(), life));
        Ok(())
    });
    if let Err(broken) = outcome {
        panic!("{broken}");
    }
}

/// Counts stop at the largest there is: then a limit of that many is full, and not overdrawn.
#[test]
fn a_full_limit_of_the_largest_count_lets_a_cost_of_0_pass() {
    let other = Limit::token_bucket(5, Window::seconds(86_400)).expect("a limit");
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SubWindows { buckets: 10 }]
    {
        let limit = Limit::new(algorithm, MAX_COUNT, Window::seconds(86_400)).expect("a limit");
        let world = RedisWorld::single();
        runtime().block_on(async {
            let charge = Charge::new(world.named("full"), &limit, MAX_COUNT - 2);
            let beside = Charge::new(world.named("beside"), &other, 1);
            assert!(world.take(charge).await.allowed());
            let batch = [
                vec![Charge { cost: 1, ..charge }],
                vec![Charge { cost: 2, count_denied: true, ..charge }],
                vec![Charge { cost: 0, ..charge }, beside],
            ];
            let results = join_all(batch.iter().map(|charges| world.settle_as(charges, Intent::Take))).await;
            assert!(results[2].iter().all(Verdict::allowed), "{algorithm:?}: {results:?}");
            assert_eq!(world.look(Charge { cost: 0, ..beside }).await.remaining, 4, "{algorithm:?}");
        });
    }
}
