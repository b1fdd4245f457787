//! The short way of settling and the long one: the same verdicts, and the same cells after.

use tidegate_core::{Key, Limit, Verdict, VirtualClock};
use tidegate_stores::{Charge, Intent, MemoryStore, Verdicts};

use crate::limits::{PERIOD_US, fixed_window, leaky_bucket, sliding_window, token_bucket};
use crate::world::{key, snapshot_of, store};

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Settles as a rule's limits are: first all at once in their places, and at length if that was not usual.
fn settle_rule(store: &MemoryStore, home: Key, charges: &[Charge<'_>], verdicts: &mut Verdicts) {
    let buckets = charges.iter().map(|charge| (charge.key.mark ^ home.mark, charge.limit));
    match store.take_all_usual(home, buckets, charges[0].cost) {
        Some(said) => verdicts.extend(said.into_iter().take(charges.len()).map(Verdict::from)),
        None => store.settle_any(charges, Intent::Take, verdicts),
    }
}

/// Requests of these limits, one home for all, on three stores.
fn settle_alike(limits: &[Limit], seed: u64) {
    let clock = VirtualClock::new();
    let [short, rule, long] = [(); 3].map(|()| store(1_000, &clock));
    let mut dice = Dice(seed);
    let mut denied = 0;
    for _ in 0..2_000 {
        let (home, cost) = (key("home", dice.below(3) as usize), dice.below(4));
        let salt = |number: usize| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64);
        let of = |(number, limit)| Charge::new(Key::of_limit(home, salt(number)), limit, cost);
        let charges: Vec<_> = limits.iter().enumerate().map(of).collect();
        let [mut one, mut two, mut three] = [(); 3].map(|()| Verdicts::new());
        short.settle_now(&charges, Intent::Take, &mut one);
        long.settle_any(&charges, Intent::Take, &mut two);
        settle_rule(&rule, home, &charges, &mut three);
        assert_eq!(one, two, "{charges:?}");
        assert_eq!(three, two, "{charges:?}");
        denied += u32::from(one.iter().any(|verdict| !verdict.allowed()));
        clock.advance_us(dice.below(PERIOD_US / 20));
    }
    assert!((100..1_900).contains(&denied), "both answers are common, {denied} were denied");
    assert!(snapshot_of(&short) == snapshot_of(&long), "the cells are the same");
    assert!(snapshot_of(&rule) == snapshot_of(&long), "the cells are the same");
}

#[test]
fn one_limit_settles_alike_on_both_ways() {
    for limit in [token_bucket(7, 9), leaky_bucket(11, 5), sliding_window(9), fixed_window(9)] {
        settle_alike(&[limit], 1);
    }
}

#[test]
fn several_buckets_settle_alike_on_both_ways() {
    settle_alike(&[token_bucket(7, 9), token_bucket(13, 6)], 2);
    settle_alike(&[token_bucket(20, 40), leaky_bucket(11, 5), token_bucket(9, 9), token_bucket(13, 30)], 3);
}
