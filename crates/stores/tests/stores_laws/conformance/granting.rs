//! As much of a charge as fits.

use tidegate_core::Limit;
use tidegate_stores::{Charge, Store, StoreError};
use tidegate_testkit::promise;

use super::World;
use crate::limits;

fn divisible() -> impl Iterator<Item = Limit> {
    limits::charged().into_iter().filter(Limit::is_divisible)
}

/// The largest cost, up to that of the charge, that would be allowed now.
async fn fits<W: World>(world: &W, charge: Charge<'_>) -> u64 {
    let mut cost = charge.cost;
    while cost > 0 && !world.look(Charge { cost, ..charge }).await.allowed() {
        cost -= 1;
    }
    cost
}

pub(crate) async fn what_is_granted_fits_and_one_unit_more_does_not<W: World>(world: W) {
    for limit in divisible() {
        for (used, asked) in
            (0..=limit.burst()).flat_map(|used| (0..limit.burst() + 3).map(move |asked| (used, asked)))
        {
            let charge = world.charge(&format!("{used}, then {asked} of {limit:?}"), &limit, asked);
            world.take(Charge { cost: used, ..charge }).await;
            world.advance_us(limit.period_us() / 7);
            let fits = fits(&world, charge).await;
            let before =
                world.look(Charge { cost: if fits == 0 { asked.min(1) } else { fits }, ..charge }).await;
            let grant = world.take_up_to(charge).await;
            assert_eq!((grant.units, grant.verdict), (fits, before), "{asked} of {limit:?} after {used}");
            if fits < asked {
                assert!(!world.look(Charge { cost: 1, ..charge }).await.allowed(), "{grant:?} of {limit:?}");
            }
        }
    }
}

pub(crate) async fn a_grant_leaves_a_counter_as_a_charge_of_as_much_does<W: World>(world: W) {
    for limit in divisible() {
        for asked in 0..limit.burst() + 3 {
            let granted = world.charge(&format!("granted {asked} of {limit:?}"), &limit, asked);
            let charged = world.charge(&format!("charged {asked} of {limit:?}"), &limit, asked);
            for round in 0..6 {
                let units = world.take_up_to(granted).await.units;
                // One that does not fit, if nothing was granted.
                let cost = if units == 0 { asked.min(1) } else { units };
                assert_eq!(world.take(Charge { cost, ..charged }).await.allowed(), units == cost);
                assert_eq!(world.reading(granted).await, world.reading(charged).await, "{limit:?}");
                world.advance_us(round * limit.period_us() / 11);
            }
        }
    }
}

pub(crate) async fn grants_never_add_up_to_more_than_the_limit<W: World>(world: W) {
    for limit in divisible() {
        let mut admitted = Vec::new();
        for step in 0..100 {
            let charge = world.charge(&format!("{limit:?}"), &limit, 1 + step % 4);
            let units = if step % 3 == 0 {
                if world.take(charge).await.allowed() { charge.cost } else { 0 }
            } else {
                world.take_up_to(charge).await.units
            };
            assert!(units <= charge.cost, "{units} of {charge:?}");
            if units > 0 {
                admitted.push((world.now(), units));
            }
            world.advance_us(step * step % 17 * limit.period_us() / 97);
        }
        assert!(admitted.len() > 10, "{limit:?} granted {admitted:?}");
        promise::kept(&limit, &admitted).expect("the limit's promise");
    }
}

pub(crate) async fn slots_and_queues_grant_no_part<W: World>(world: W) {
    for limit in [limits::concurrency(3), limits::queue(3, 4)] {
        let charge = world.charge(&format!("{limit:?}"), &limit, 2);
        let before = world.reading(charge).await;
        assert_eq!(world.store().take_up_to(&charge).await, Err(StoreError::Indivisible), "{limit:?}");
        assert_eq!(world.reading(charge).await, before, "{limit:?}");
    }
}
