//! Random schedules on several keys, decision by decision beside the [`Model`].

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_core::{Algorithm, Key, Limit, Micros, Taken, Verdict};
use tidegate_stores::{Charge, Correction, Force, Intent, Store};
use tidegate_testkit::schedule::{self, Action, Mix, Schedule, Step, limits};

use crate::conformance::World;
use crate::model::Model;
#[cfg(feature = "redis")]
use crate::redis::world::RedisWorld;
use crate::world::MemoryWorld;

/// Counters and what happens to them.
#[derive(Clone, Debug)]
struct Life {
    /// One per key; the first half of the keys share a home.
    limits: Vec<Limit>,
    schedule: Schedule,
    /// For each step of the schedule: which key leads, and what is beside it in the same request.
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
struct Request {
    lead: usize,
    force: Force,
    intent: Intent,
    beside: Vec<Beside>,
    /// Whether the step's own charge comes last or first. A refund is followed by a renewal or a
    /// release instead.
    lead_last: bool,
    upheaval: bool,
    /// Which of the last leases is renewed or released.
    slot: u64,
}

/// A charge to one of the keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    key: usize,
    cost: u64,
    force: Force,
    hold: bool,
    count_denied: bool,
}

/// Every store's horizon is 2^52 us; the longest limit reaches 20 years ahead.
pub(crate) const LATEST_US: u64 = (1 << 52) - 20 * 366 * 86_400 * 1_000_000;

fn small_limits() -> impl Strategy<Value = Limit> {
    proptest::sample::select(crate::limits::every())
}

pub(crate) fn any_limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        8 => small_limits(),
        1 => limits::fixed_window(),
        1 => limits::calendar(),
        1 => limits::sliding_window(),
        1 => limits::sub_windows(),
        1 => limits::sliding_log(),
        1 => limits::token_bucket(),
        1 => limits::leaky_meter(),
        1 => limits::leaky_queue(),
        1 => limits::concurrency(),
    ]
}

fn forces() -> impl Strategy<Value = Force> {
    prop_oneof![6 => Just(Force::Enforced), 2 => Just(Force::Shadow), 2 => Just(Force::Quota)]
}

/// Any charge to one of so many keys.
pub(crate) fn beside(keys: usize) -> impl Strategy<Value = Beside> {
    let cost = prop_oneof![1 => Just(0_u64), 8 => 1_u64..4, 1 => any::<u64>()];
    (0..keys, cost, forces(), any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(key, cost, force, hold, count_denied)| Beside { key, cost, force, hold, count_denied })
}

fn requests(keys: usize) -> impl Strategy<Value = Request> {
    let count = prop_oneof![4 => Just(0_usize), 4 => 1_usize..4, 1 => 4_usize..20];
    let beside = (count, vec(beside(keys), 20)).prop_map(|(count, beside)| beside[..count].to_vec());
    let intent = prop_oneof![5 => Just(Intent::Take), 1 => Just(Intent::Look)];
    (0..keys, forces(), intent, beside, any::<bool>(), prop::bool::weighted(0.08), 0_u64..4).prop_map(
        |(lead, force, intent, beside, lead_last, upheaval, slot)| Request {
            lead,
            force,
            intent,
            beside,
            lead_last,
            upheaval,
            slot,
        },
    )
}

fn lives(mix: Mix) -> impl Strategy<Value = Life> {
    const STEPS: usize = 60;
    let requests = vec(requests(6), STEPS);
    (vec(any_limits(), 6), schedule::schedules(mix, STEPS), requests)
        .prop_map(|(limits, schedule, requests)| Life { limits, schedule, requests })
}

/// Lives through it in a store and in the model, and compares every answer.
async fn agrees<W: World>(mut world: W, life: Life, upheavals: bool) {
    let mut model = Model::default();
    let Life { mut limits, schedule, requests } = life;
    let keys: Vec<_> = (0..limits.len()).map(|number| counter(&world, number)).collect();
    let mut retry_at = schedule.start;
    // Of some of the charges, what a refund has to know of them.
    let mut taken = vec![Taken { at: schedule.start, clear_at: schedule.start }; limits.len()];
    world.set_now(Micros(schedule.start.0.min(LATEST_US)));
    for (lease, (step, request)) in schedule.steps.into_iter().zip(requests).enumerate() {
        let Step { advance, action } = step;
        let lead = request.lead;
        let now = advance.from(&limits[lead], world.now(), retry_at);
        world.set_now(Micros(now.0.min(LATEST_US)));
        let now = world.now();
        if request.upheaval && upheavals {
            world.upheaval();
        }
        let charge =
            Charge { force: request.force, lease: lease as u64, ..Charge::new(keys[lead], &limits[lead], 0) };
        let left = model.settle(&[charge], Intent::Look, now)[0].remaining;
        let charge = match action {
            Action::Charge { amount, .. } if request.beside.is_empty() && limits[lead].is_divisible() => {
                let charge =
                    Charge { cost: amount.units(&limits[lead], left), force: Force::Enforced, ..charge };
                let grant = world.take_up_to(charge).await;
                let expected = model.take_up_to(&charge, now);
                assert_eq!(
                    (grant.units, grant.verdict),
                    expected,
                    "step {lease} at {now:?}: up to {charge:?}"
                );
                assert_eq!(grant.at, now);
                continue;
            }
            Action::Charge { amount, hold } => {
                Charge { cost: amount.units(&limits[lead], left), hold, ..charge }
            }
            Action::Take(amount) => {
                Charge { cost: amount.units(&limits[lead], left), count_denied: true, ..charge }
            }
            Action::Peek => charge,
            Action::Refund(amount) => {
                let charge = Charge { cost: amount.units(&limits[lead], left), ..charge };
                if let Some(correction) = request.correction(&charge, taken[lead]) {
                    let corrected = world.store().correct(&[(charge, correction)]).await;
                    let expected = model.correct(&charge, correction, now);
                    assert_eq!(corrected[..], [Ok(expected)], "step {lease}: {correction:?} of {charge:?}");
                    continue;
                }
                world.give_back(&[charge]).await;
                model.give_back(&[charge], now);
                let slot = Charge { lease: (lease as u64).saturating_sub(request.slot), ..charge };
                if request.lead_last {
                    assert_eq!(world.renew(&slot).await, model.renew(&slot, now), "step {lease}");
                } else {
                    assert_eq!(world.release(&slot).await, model.release(&slot, now), "step {lease}");
                }
                continue;
            }
            Action::Relimit(numbers) => {
                let changed = numbers.apply(&limits[lead]);
                let carried =
                    |changed: &Limit| W::CARRIES_WINDOWS || changed.family() == limits[lead].family();
                if let Some(changed) = changed.filter(carried) {
                    limits[lead] = changed;
                }
                continue;
            }
        };
        let mut charges: Vec<_> = request.beside.iter().map(|it| it.charge(&keys, &limits, lease)).collect();
        charges.insert(if request.lead_last { charges.len() } else { 0 }, charge);
        let verdicts = world.settle_as(&charges, request.intent).await;
        let expected = model.settle(&charges, request.intent, now);
        assert_eq!(verdicts, expected, "step {lease} at {now:?}: {:?} of {charges:?}", request.intent);
        if request.slot < 2 {
            let mine = verdicts[if request.lead_last { charges.len() - 1 } else { 0 }];
            taken[lead] = Taken { at: now, clear_at: now.plus(mine.reset_after_us) };
        }
        let retry = verdicts.iter().find_map(Verdict::retry_after_us);
        retry_at = now.plus(retry.unwrap_or(0));
    }
}

fn counter(world: &impl World, number: usize) -> Key {
    if number < 3 { world.key("home", &number.to_string()) } else { world.named(&number.to_string()) }
}

impl Request {
    /// What is done instead of a plain refund, if anything.
    fn correction(&self, charge: &Charge<'_>, taken: Taken) -> Option<Correction> {
        match (charge.limit.algorithm(), self.beside.len()) {
            (Algorithm::Concurrency, _) => None,
            (_, 0) if self.lead_last => Some(Correction::GiveBack(taken)),
            (_, 1) => Some(Correction::Overdraw),
            (_, 2) => Some(Correction::GiveBack(taken)),
            (_, 4) => Some(Correction::Look),
            _ => None,
        }
    }
}

impl Beside {
    /// An enforced charge that cannot wait.
    #[cfg(feature = "redis")]
    pub(crate) fn plain(key: usize, cost: u64) -> Self {
        Self { key, cost, force: Force::Enforced, hold: false, count_denied: false }
    }

    pub(crate) fn charge<'a>(&self, keys: &[Key], limits: &'a [Limit], lease: usize) -> Charge<'a> {
        let Self { key, cost, force, hold, count_denied } = *self;
        let lease = 1_000 + lease as u64;
        Charge { force, hold, count_denied, lease, ..Charge::new(keys[key], &limits[key], cost) }
    }
}

/// How many times as many lives are lived: `TIDEGATE_SOAK=100` lives a hundred times as many.
pub(crate) fn soak() -> u32 {
    std::env::var("TIDEGATE_SOAK").map_or(1, |times| times.parse().expect("a number"))
}

fn every_life_agrees<W: World>(world: impl Fn() -> W, lives_to_live: u32, mix: Mix, upheavals: bool) {
    let config = Config { source_file: Some(file!()), ..tidegate_testkit::cases(lives_to_live) };
    let outcome = TestRunner::new(config).run(&lives(mix), |life| {
        pollster::block_on(agrees(world(), life, upheavals));
        Ok(())
    });
    if let Err(broken) = outcome {
        panic!("{broken}");
    }
}

fn memory_agrees(mix: Mix, upheavals: bool) {
    every_life_agrees(MemoryWorld::new, 500, mix, upheavals);
}

#[cfg(feature = "redis")]
#[test]
fn redis_agrees_with_the_model() {
    every_life_agrees(RedisWorld::single, 200, Mix::Plain, true);
}

#[cfg(feature = "redis")]
#[test]
fn redis_agrees_with_the_model_while_limits_change() {
    every_life_agrees(RedisWorld::single, 200, Mix::Changes, true);
}

#[test]
fn memory_agrees_with_the_model_through_sweeps_and_restarts() {
    memory_agrees(Mix::Plain, true);
}

#[test]
fn memory_agrees_with_the_model_while_limits_change() {
    memory_agrees(Mix::Changes, true);
}

/// What a sweep dropped at a later time does not come back, so there are none here.
#[test]
fn memory_agrees_with_the_model_when_the_clock_steps() {
    memory_agrees(Mix::ClockSteps, false);
}
