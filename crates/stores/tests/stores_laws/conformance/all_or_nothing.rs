//! Several charges in one request.

use tidegate_core::{Limit, Outcome};
use tidegate_stores::Charge;

use super::{World, retry_after_us};
use crate::limits::{self, fits_at_once, fixed_window, sliding_window};

/// Charges of these limits, on counters that share a home or each have their own.
fn request<'a>(world: &impl World, name: &str, limits: &[&'a Limit], one_home: bool) -> Vec<Charge<'a>> {
    let key = |index: usize| {
        let name = format!("{name} {index} {limits:?}");
        if one_home { world.key("home", &name) } else { world.named(&name) }
    };
    let charge = |(index, limit)| Charge { lease: 7, ..Charge::new(key(index), limit, 1) };
    limits.iter().copied().enumerate().map(charge).collect()
}

async fn readings(world: &impl World, charges: &[Charge<'_>]) -> Vec<Vec<tidegate_core::Verdict>> {
    let mut readings = Vec::new();
    for charge in charges {
        readings.push(world.reading(*charge).await);
    }
    readings
}

pub(crate) async fn if_one_denies_none_is_charged<W: World>(world: W) {
    let limits = limits::every();
    for (index, denies) in limits.iter().enumerate() {
        for (other, one_home) in limits.iter().flat_map(|other| [(other, true), (other, false)]) {
            let third = &limits[(index + 1) % limits.len()];
            for of in [[denies, other, third], [other, denies, third], [third, other, denies]] {
                let full = of.iter().position(|limit| std::ptr::eq(*limit, denies)).unwrap_or(0);
                let name = if one_home { "one home" } else { "three homes" };
                let request = request(&world, name, &of, one_home);
                world.fill(request[full]).await;
                let before = readings(&world, &request).await;
                let verdicts = world.settle(&request).await;
                assert!(!verdicts[full].allowed(), "{denies:?} is full");
                assert_eq!(readings(&world, &request).await, before, "{name}: {of:?}");
            }
        }
    }
}

pub(crate) async fn if_all_fit_each_is_charged<W: World>(world: W) {
    let limits = limits::every();
    let all: Vec<_> = limits.iter().collect();
    for one_home in [true, false] {
        let together = request(&world, "together", &all, one_home);
        let alone = request(&world, "alone", &all, one_home);
        let verdicts = world.settle(&together).await;
        for ((together, alone), verdict) in together.iter().zip(&alone).zip(&verdicts) {
            assert_eq!(*verdict, world.take(*alone).await, "{:?}", alone.limit);
            assert_eq!(world.reading(*together).await, world.reading(*alone).await, "{:?}", alone.limit);
        }
    }
}

pub(crate) async fn a_blocked_request_says_what_each_limit_has_left<W: World>(world: W) {
    let limits = limits::every();
    let full = fixed_window(3);
    for one_home in [true, false] {
        let mut all: Vec<_> = limits.iter().collect();
        all.push(&full);
        let request = request(&world, if one_home { "one" } else { "many" }, &all, one_home);
        let (last, others) = request.split_last().expect("there are several");
        world.fill(*last).await;
        let verdicts = world.settle(&request).await;
        for (charge, verdict) in others.iter().zip(&verdicts) {
            let peek = world.look(Charge { cost: 0, ..*charge }).await;
            assert_eq!(verdict.outcome, Outcome::Allowed, "it is not {:?} that denies", charge.limit);
            assert_eq!(verdict.remaining, peek.remaining, "{:?}", charge.limit);
            assert_eq!(verdict.reset_after_us, peek.reset_after_us, "{:?}", charge.limit);
        }
        assert_eq!(verdicts[others.len()], world.look(*last).await);
    }
}

pub(crate) async fn a_request_of_many_charges_is_settled_as_one<W: World>(world: W) {
    let limits = [fixed_window(2), sliding_window(2), limits::sub_windows(2), limits::token_bucket(2, 2)];
    let all: Vec<_> = (0..60).map(|index| &limits[index % limits.len()]).collect();
    let request = request(&world, "many", &all, false);
    assert!(world.settle(&request).await.iter().all(|verdict| verdict.remaining == 1));
    assert!(world.take(request[37]).await.allowed());
    let verdicts = world.settle(&request).await;
    let denied: Vec<_> = (0..60).filter(|index| !verdicts[*index].allowed()).collect();
    assert_eq!(denied, [37]);
    assert!(verdicts.iter().zip(0..).all(|(verdict, index)| verdict.remaining == u64::from(index != 37)));
    let others: Vec<_> =
        request.iter().zip(0..).filter(|(_, index)| *index != 37).map(|(it, _)| *it).collect();
    assert!(world.settle(&others).await.iter().all(|verdict| verdict.allowed() && verdict.remaining == 0));
}

pub(crate) async fn a_repeated_key_counts_each_time<W: World>(world: W) {
    for limit in limits::every() {
        let fits = fits_at_once(&limit);
        let charge = world.charge(&format!("{limit:?}"), &limit, 1);
        let repeated =
            |times: u64| -> Vec<_> { (0..times).map(|lease| Charge { lease, ..charge }).collect() };
        for lease in 1..fits {
            assert!(world.take(Charge { lease: 100 + lease, ..charge }).await.allowed());
        }
        let before = world.reading(charge).await;
        let verdicts = world.settle(&repeated(2)).await;
        assert!(verdicts[0].allowed() && !verdicts[1].allowed(), "one is left of {limit:?}: {verdicts:?}");
        assert!(retry_after_us(&verdicts[1]) > 0);
        let left = world.look(Charge { cost: 0, ..charge }).await.remaining;
        assert_eq!([verdicts[0].remaining, verdicts[1].remaining], [left; 2], "as it stands: {limit:?}");
        assert_eq!(world.reading(charge).await, before, "{limit:?}");
        assert!(world.take(charge).await.allowed(), "the one that is left of {limit:?}");

        let charge = world.charge(&format!("afresh {limit:?}"), &limit, 1);
        let repeated =
            |times: u64| -> Vec<_> { (0..times).map(|lease| Charge { lease, ..charge }).collect() };
        let over = world.settle(&repeated(fits + 1)).await;
        let denied = over.iter().filter(|verdict| !verdict.allowed()).count();
        assert_eq!(denied, 1, "the last of {limit:?}");
        assert!(world.settle(&repeated(fits)).await.iter().all(tidegate_core::Verdict::allowed));
        assert!(!world.take(charge).await.allowed(), "{limit:?} is full");
    }
}
