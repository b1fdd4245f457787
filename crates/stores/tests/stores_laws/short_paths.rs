//! The fast path of settling, the general one and the careful one: the same verdicts, and the same cells after.

use tidegate_core::{Key, Limit, VirtualClock};
use tidegate_stores::{Charge, Force, Intent, MemoryStore, Verdicts};

use crate::limits::{
    PERIOD_US, fixed_window, leaky_bucket, queue, sliding_log, sliding_window, sub_windows, token_bucket,
};
use crate::world::{key, snapshot_of, store};

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Settles by the fast paths: of one limit, and of several limits with one home. Settles by the general path where
/// they do not apply.
fn settle_fast(store: &MemoryStore, charges: &[Charge<'_>], verdicts: &mut Verdicts) {
    let home = charges[0].key;
    let limits = charges.iter().map(|charge| (charge.key.mark ^ home.mark, charge.limit));
    let fast = match charges {
        [charge] => store.settle_cell(home, charge.limit, charge.cost, false).map(|one| vec![one]),
        _ if charges.iter().any(|charge| charge.key.home != home.home) => None,
        _ => store.take_cells(home, &limits, charges[0].cost).map(|all| all[..charges.len()].to_vec()),
    };
    match fast {
        Some(settled) => verdicts.extend(settled),
        None => drop(store.settle_now(charges, Intent::Take, verdicts)),
    }
}

/// Settles with all the care there is: charges are not taken in place if another one costs nothing.
fn settle_carefully(store: &MemoryStore, charges: &[Charge<'_>], verdicts: &mut Verdicts) {
    let peek = Charge { force: Force::Shadow, ..Charge::new(key("nobody", 0), charges[0].limit, 0) };
    let all: Vec<_> = charges.iter().copied().chain([peek]).collect();
    store.settle_now(&all, Intent::Take, verdicts);
    verdicts.truncate(charges.len());
}

/// Settles the same requests of these limits on three stores: with one home for all limits of a request, or one for
/// each.
fn settle_alike(limits: &[Limit], one_home: bool, seed: u64) {
    let clock = VirtualClock::new();
    let [fast, general, careful] = [(); 3].map(|()| store(1_000, &clock));
    let mut dice = Dice(seed);
    let mut denied = 0;
    for _ in 0..2_000 {
        let (number, cost) = (dice.below(3) as usize, dice.below(4));
        let salt = |index: usize| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index as u64);
        let home = |index: usize| key("home", if one_home { number } else { 3 * index + number });
        let of = |(index, limit)| Charge::new(Key::of_limit(home(index), salt(index)), limit, cost);
        let charges: Vec<_> = limits.iter().enumerate().map(of).collect();
        let [mut one, mut two, mut three] = [(); 3].map(|()| Verdicts::new());
        settle_fast(&fast, &charges, &mut one);
        general.settle_now(&charges, Intent::Take, &mut two);
        settle_carefully(&careful, &charges, &mut three);
        assert_eq!(one, two, "{charges:?}");
        assert_eq!(three, two, "{charges:?}");
        denied += u32::from(one.iter().any(|verdict| !verdict.allowed()));
        clock.advance_us(dice.below(PERIOD_US / 20));
    }
    assert!((100..1_900).contains(&denied), "both answers are common, {denied} were denied");
    assert!(snapshot_of(&fast) == snapshot_of(&general), "the cells are the same");
    assert!(snapshot_of(&careful) == snapshot_of(&general), "the cells are the same");
}

#[test]
fn one_limit_settles_alike_on_every_path() {
    let small = [token_bucket(7, 9), leaky_bucket(11, 5), queue(11, 5), sliding_window(9), fixed_window(9)];
    for limit in small.into_iter().chain([sub_windows(9), sliding_log(9)]) {
        settle_alike(&[limit], true, 1);
    }
}

#[test]
fn several_limits_settle_alike_on_every_path() {
    for one_home in [true, false] {
        settle_alike(&[token_bucket(7, 9), token_bucket(13, 6)], one_home, 2);
        settle_alike(&[token_bucket(7, 9), sliding_window(8), fixed_window(9)], one_home, 4);
        let buckets = [token_bucket(20, 40), leaky_bucket(11, 5), token_bucket(9, 9), token_bucket(13, 30)];
        settle_alike(&buckets, one_home, 3);
        settle_alike(&[token_bucket(7, 9), sub_windows(8), sliding_window(9), queue(20, 9)], one_home, 5);
        settle_alike(&[sliding_log(8), sub_windows(8), fixed_window(9)], one_home, 6);
        let six = [fixed_window(9), token_bucket(7, 9), sliding_window(8), token_bucket(9, 9)];
        settle_alike(&[&six[..], &[sub_windows(9), leaky_bucket(11, 9)]].concat(), one_home, 7);
    }
}
