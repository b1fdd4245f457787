//! What a denial means: shadow, quota, and charges that are taken all the same.

use tidegate_core::Verdict;
use tidegate_stores::{Charge, Force, blocked};

use super::{World, retry_after_us};
use crate::limits::{self, fixed_window, token_bucket};

pub(crate) async fn a_shadow_charge_never_blocks<W: World>(world: W) {
    let roomy = fixed_window(100);
    for limit in limits::every() {
        let shadow = world.charge(&format!("{limit:?}"), &limit, 1);
        let shadow = Charge { force: Force::Shadow, ..shadow };
        world.fill(shadow).await;
        let enforced = world.charge(&format!("enforced beside {limit:?}"), &roomy, 1);
        for taken in 1..5 {
            let request = [shadow, enforced];
            let verdicts = world.settle(&request).await;
            assert!(!verdicts[0].allowed() && !blocked(&request, &verdicts), "{limit:?}");
            assert_eq!(verdicts[1].remaining, 100 - taken, "the enforced charge is taken");
        }
    }
}

pub(crate) async fn a_shadow_denial_is_not_charged<W: World>(world: W) {
    let roomy = fixed_window(100);
    for limit in limits::every() {
        let shadow = world.charge(&format!("{limit:?}"), &limit, 1);
        let shadow = Charge { force: Force::Shadow, ..shadow };
        world.fill(shadow).await;
        let before = world.reading(shadow).await;
        world.take(shadow).await;
        world.settle(&[world.charge("enforced", &roomy, 1), shadow]).await;
        assert_eq!(world.reading(shadow).await, before, "{limit:?}");
    }
}

pub(crate) async fn a_blocked_request_charges_no_shadow<W: World>(world: W) {
    let full = fixed_window(1);
    let full = world.charge("full", &full, 1);
    world.fill(full).await;
    for limit in limits::every() {
        let shadow = world.charge(&format!("{limit:?}"), &limit, 1);
        let shadow = Charge { force: Force::Shadow, ..shadow };
        let before = world.reading(shadow).await;
        assert!(!world.settle(&[shadow, full]).await[1].allowed());
        assert_eq!(world.reading(shadow).await, before, "{limit:?}");
    }
}

pub(crate) async fn quota_charges_block_only_if_all_are_denied<W: World>(world: W) {
    let (small, large, enforced) = (fixed_window(1), token_bucket(3, 3), fixed_window(100));
    let quota = |name, limit| Charge { force: Force::Quota, ..world.charge(name, limit, 1) };
    let request = [quota("small", &small), world.charge("enforced", &enforced, 1), quota("large", &large)];
    let outcomes = async || {
        let verdicts = world.settle(&request).await;
        let allowed: Vec<_> = verdicts.iter().map(Verdict::allowed).collect();
        let left: Vec<_> = verdicts.iter().map(|verdict| verdict.remaining).collect();
        (blocked(&request, &verdicts), allowed, left)
    };
    assert_eq!(outcomes().await, (false, vec![true, true, true], vec![0, 99, 2]));
    assert_eq!(outcomes().await, (false, vec![false, true, true], vec![0, 98, 1]), "one quota is left");
    assert_eq!(outcomes().await, (false, vec![false, true, true], vec![0, 97, 0]));
    assert_eq!(outcomes().await, (true, vec![false, true, false], vec![0, 97, 0]), "none is left");
    assert_eq!(outcomes().await, (true, vec![false, true, false], vec![0, 97, 0]), "nothing was charged");
    let alone = [quota("small", &small)];
    assert!(blocked(&alone, &world.settle(&alone).await), "the only quota is all of them");
}

/// As envoyproxy/ratelimit counts.
pub(crate) async fn count_denied_charges_the_denied_too<W: World>(world: W) {
    for limit in limits::charged() {
        let charge = world.charge(&format!("{limit:?}"), &limit, 1);
        let charge = Charge { count_denied: true, hold: true, ..charge };
        let most = limit.burst();
        if most > 2 {
            assert_eq!(world.take(Charge { cost: most - 2, ..charge }).await.remaining, 2);
            assert_eq!(world.look(Charge { cost: 3, ..charge }).await.remaining, 2, "a look counts nothing");
        }
        let denied = world.take(Charge { cost: most, ..charge }).await;
        let first_denied = if most > 2 { denied } else { world.take(charge).await };
        assert!(!first_denied.allowed(), "{limit:?}");
        assert_eq!(first_denied.remaining, 0, "{limit:?}: the denial took what was left");
        assert!(!world.take(charge).await.allowed(), "{limit:?}");
    }
    let (five, ten) = (fixed_window(5), fixed_window(10));
    let counted = |limit, cost| Charge { count_denied: true, ..world.charge("counted", limit, cost) };
    world.take(counted(&five, 4)).await;
    world.take(counted(&five, 3)).await;
    let raised = world.look(counted(&ten, 0)).await;
    assert_eq!(raised.remaining, 3, "4 and 3 have been counted");
}

pub(crate) async fn count_denied_puts_off_the_retry_it_announces<W: World>(world: W) {
    for limit in limits::charged() {
        for cost in 1..=limit.burst() {
            let charge = world.charge(&format!("{cost} of {limit:?}"), &limit, cost);
            world.fill(charge).await;
            world.advance_us(limit.period_us() / 7);
            let shadow = Charge { count_denied: true, force: Force::Shadow, ..charge };
            let beside = world.charge(&format!("beside {cost} of {limit:?}"), &limit, 1);
            let alone = world.take(shadow).await;
            let verdicts = world.settle(&[shadow, beside]).await;
            for verdict in [alone, verdicts[0]] {
                if verdict.allowed() {
                    continue;
                }
                let look = world.look(charge).await;
                assert!(retry_after_us(&verdict) <= retry_after_us(&look), "{cost} of {limit:?}");
            }
            if !verdicts[0].allowed() {
                world.advance_us(retry_after_us(&verdicts[0]) - 1);
                assert!(!world.look(charge).await.allowed(), "{cost} of {limit:?}");
                world.advance_us(1);
                assert!(world.look(charge).await.allowed(), "{cost} of {limit:?}");
            }
        }
    }
}

pub(crate) async fn count_denied_charges_what_another_limit_blocks<W: World>(world: W) {
    let full = fixed_window(1);
    let full = world.charge("full", &full, 1);
    world.fill(full).await;
    let counted = fixed_window(5);
    let counted = Charge { count_denied: true, ..world.charge("counted", &counted, 2) };
    let verdicts = world.settle(&[counted, full]).await;
    assert!(verdicts[0].allowed() && !verdicts[1].allowed());
    assert_eq!(verdicts[0].remaining, 3);
    assert_eq!(world.look(Charge { cost: 0, ..counted }).await.remaining, 3);
}
