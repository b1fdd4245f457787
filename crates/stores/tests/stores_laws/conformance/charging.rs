//! One key, one limit.

use tidegate_core::{Limit, NEVER_US};
use tidegate_stores::{Charge, Verdicts};
use tidegate_testkit::promise;

use super::{World, retry_after_us};
use crate::limits::{self, fits_at_once, token_bucket};

/// Time that passes between charges: no multiple of anything.
const A_WHILE_US: u64 = 137_713;

pub(crate) async fn never_admits_more_than_the_limit_at_once<W: World>(world: W) {
    for limit in limits::every() {
        let fitted = world.fill(world.charge(&format!("{limit:?}"), &limit, 1)).await;
        assert_eq!(fitted, fits_at_once(&limit), "{limit:?}");
    }
}

pub(crate) async fn never_admits_more_than_the_limit_over_time<W: World>(world: W) {
    for limit in limits::charged() {
        let mut admitted = Vec::new();
        for step in 0..150 {
            let cost = 1 + step % 3;
            let charge = Charge { hold: false, ..world.charge(&format!("{limit:?}"), &limit, cost) };
            if world.take(charge).await.allowed() {
                admitted.push((world.now(), cost));
            }
            world.advance_us(step * step % 17 * limit.period_us() / 97);
        }
        assert!(admitted.len() > 10, "{limit:?} admitted {admitted:?}");
        promise::kept(&limit, &admitted).expect("the limit's promise");
    }
}

pub(crate) async fn a_denied_charge_is_allowed_exactly_at_retry_after<W: World>(world: W) {
    for limit in limits::every() {
        for cost in 1..=limit.burst() {
            let charge = || world.charge(&format!("{cost} of {limit:?}"), &limit, cost);
            for round in 1..5 {
                while world.take(charge()).await.allowed() {
                    world.advance_us(A_WHILE_US * round);
                }
                let retry_us = retry_after_us(&world.take(charge()).await);
                world.advance_us(retry_us - 1);
                let before = retry_after_us(&world.look(charge()).await);
                assert_eq!(before, 1, "{cost} of {limit:?}, a microsecond too early");
                world.advance_us(1);
                let verdict = world.take(charge()).await;
                assert!(verdict.allowed(), "{cost} of {limit:?}, at the time: {verdict:?}");
            }
        }
    }
}

pub(crate) async fn a_cost_counts_as_that_many_single_charges<W: World>(world: W) {
    for limit in limits::every() {
        for cost in 1..=limit.burst() {
            let name = |how| format!("{how}: {cost} of {limit:?}");
            let charge = |how, cost| Charge { hold: true, ..world.charge(&name(how), &limit, cost) };
            let singles = charge("one by one", 1);
            for lease in 0..cost {
                assert!(world.take(Charge { lease, ..singles }).await.allowed());
            }
            let at_once = charge("at once", cost);
            assert!(world.take(at_once).await.allowed());
            assert_eq!(world.reading(at_once).await, world.reading(singles).await, "{cost} of {limit:?}");
        }
    }
}

pub(crate) async fn a_cost_beyond_the_limit_never_fits_and_takes_nothing<W: World>(world: W) {
    for limit in limits::every() {
        let charge = world.charge(&format!("{limit:?}"), &limit, 1);
        let before = world.reading(charge).await;
        for cost in [limit.burst() + 1, u64::MAX] {
            for hold in [false, true] {
                let verdict = world.take(Charge { cost, hold, ..charge }).await;
                assert_eq!(retry_after_us(&verdict), NEVER_US, "{cost} of {limit:?}");
            }
        }
        assert_eq!(world.reading(charge).await, before, "{limit:?}");
    }
}

pub(crate) async fn a_denied_charge_takes_nothing<W: World>(world: W) {
    for limit in limits::every() {
        let charge = world.charge(&format!("{limit:?}"), &limit, 1);
        world.fill(charge).await;
        let before = world.reading(charge).await;
        for cost in 1..=limit.burst() {
            let verdict = world.take(Charge { cost, ..charge }).await;
            assert!(!verdict.allowed());
        }
        assert_eq!(world.reading(charge).await, before, "{limit:?}");
    }
}

pub(crate) async fn counters_do_not_touch_each_other<W: World>(world: W) {
    for limit in limits::every() {
        let key = |home, name| world.key(home, &format!("{name} {limit:?}"));
        let charge = |home, name| Charge::new(key(home, name), &limit, 1);
        let untouched = world.reading(charge("a", "untouched")).await;
        world.fill(charge("a", "full")).await;
        for other in [charge("a", "beside"), charge("b", "full"), charge("b", "beside")] {
            assert_eq!(world.reading(other).await, untouched, "{limit:?}");
        }
    }
}

pub(crate) async fn a_limit_of_zero_denies_everything<W: World>(world: W) {
    for limit in limits::every() {
        let zero = Limit::new(limit.algorithm(), 0, limit.window().clone()).expect("zero is a limit");
        let charge = world.charge(&format!("{limit:?}"), &zero, 1);
        for _ in 0..3 {
            assert_eq!(retry_after_us(&world.take(charge).await), NEVER_US, "{zero:?}");
            world.advance_us(zero.period_us());
        }
        assert!(world.take(Charge { cost: 0, ..charge }).await.allowed(), "a peek at {zero:?}");
    }
}

/// Rules that change build other keys; if one comes all the same, it harms nobody.
pub(crate) async fn a_key_that_comes_back_under_another_algorithm_starts_afresh<W: World>(world: W) {
    let same_state = |a: &Limit, b: &Limit| {
        let bucket = |limit: &Limit| limit.algorithm().name().ends_with("bucket");
        a.algorithm().name() == b.algorithm().name() || bucket(a) && bucket(b)
    };
    for first in limits::every() {
        for second in limits::every().into_iter().filter(|second| !same_state(&first, second)) {
            // Neighbours that are there before and after, to see whether they stay what they are.
            let name = |what| format!("{what} {first:?} {second:?}");
            let neighbours = [world.key("home", &name("1")), world.key("home", &name("2"))];
            let key = world.key("home", &name("it"));
            let by_both = [Charge::new(neighbours[0], &first, 1), Charge::new(neighbours[1], &second, 1)];
            world.settle(&by_both).await;
            let before = [world.reading(by_both[0]).await, world.reading(by_both[1]).await];

            world.fill(Charge::new(key, &first, 1)).await;
            let fresh = world.reading(Charge::new(world.named(&name("fresh")), &second, 1)).await;
            assert_eq!(world.reading(Charge::new(key, &second, 1)).await, fresh, "{first:?} {second:?}");
            let fitted = world.fill(Charge::new(key, &second, 1)).await;
            assert_eq!(fitted, fits_at_once(&second), "{first:?} {second:?}");

            let after = [world.reading(by_both[0]).await, world.reading(by_both[1]).await];
            assert_eq!(before, after, "{first:?} {second:?}");
        }
    }
}

pub(crate) async fn an_empty_request_has_no_verdicts<W: World>(world: W) {
    assert_eq!(world.settle(&[]).await, Verdicts::new());
}

pub(crate) async fn nothing_shows_that_the_store_was_swept_or_restarted<W: World>(mut world: W) {
    let limits = limits::every();
    let keys: Vec<_> = limits.iter().map(|limit| world.named(&format!("{limit:?}"))).collect();
    let charges: Vec<_> = keys.iter().zip(&limits).map(|(key, limit)| Charge::new(*key, limit, 1)).collect();
    let full = token_bucket(5, 5);
    let full = Charge::new(world.named("full"), &full, 1);
    world.fill(full).await;
    for round in 0..4 {
        for charge in &charges {
            world.take(Charge { lease: round, ..*charge }).await;
        }
        let mut before = vec![world.reading(full).await];
        for charge in &charges {
            before.push(world.reading(*charge).await);
        }
        world.upheaval();
        let mut after = vec![world.reading(full).await];
        for charge in &charges {
            after.push(world.reading(*charge).await);
        }
        assert_eq!(before, after, "in round {round}");
        world.advance_us(limits::PERIOD_US / 3);
    }
}
