//! The short paths of settling and the general one: the same verdicts, and the same cells after.

use tidegate_core::{Key, Limit, VirtualClock};
use tidegate_stores::{Charge, Force, Intent, MemoryStore, Verdicts};

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

/// Settles a request of several limits by the short path, and by the general one where that does not apply.
fn settle_shortly(store: &MemoryStore, home: Key, charges: &[Charge<'_>], verdicts: &mut Verdicts) {
    let limits = charges.iter().map(|charge| (charge.key.mark ^ home.mark, charge.limit));
    let one = match charges {
        [charge] => store.settle_cell(charge.key, charge.limit, charge.cost, false).map(|one| vec![one]),
        _ => {
            store.settle_cells(home, limits, charges[0].cost).map(|several| several[..charges.len()].to_vec())
        }
    };
    match one {
        Some(settled) => verdicts.extend(settled),
        None => drop(store.settle_now(charges, Intent::Take, verdicts)),
    }
}

/// Settles with all the care there is: more charges than are taken in place, of which the others count nothing.
fn settle_carefully(store: &MemoryStore, charges: &[Charge<'_>], verdicts: &mut Verdicts) {
    let peeks = (0..5).map(|number| Charge {
        force: Force::Shadow,
        ..Charge::new(key("nobody", number), charges[0].limit, 0)
    });
    let all: Vec<_> = charges.iter().copied().chain(peeks).collect();
    store.settle_now(&all, Intent::Take, verdicts);
    verdicts.truncate(charges.len());
}

/// Requests of these limits, one home for all, on three stores.
fn settle_alike(limits: &[Limit], seed: u64) {
    let clock = VirtualClock::new();
    let [short, general, careful] = [(); 3].map(|()| store(1_000, &clock));
    let mut dice = Dice(seed);
    let mut denied = 0;
    for _ in 0..2_000 {
        let (home, cost) = (key("home", dice.below(3) as usize), dice.below(4));
        let salt = |number: usize| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64);
        let of = |(number, limit)| Charge::new(Key::of_limit(home, salt(number)), limit, cost);
        let charges: Vec<_> = limits.iter().enumerate().map(of).collect();
        let [mut one, mut two, mut three] = [(); 3].map(|()| Verdicts::new());
        settle_shortly(&short, home, &charges, &mut one);
        general.settle_now(&charges, Intent::Take, &mut two);
        settle_carefully(&careful, &charges, &mut three);
        assert_eq!(one, two, "{charges:?}");
        assert_eq!(three, two, "{charges:?}");
        denied += u32::from(one.iter().any(|verdict| !verdict.allowed()));
        clock.advance_us(dice.below(PERIOD_US / 20));
    }
    assert!((100..1_900).contains(&denied), "both answers are common, {denied} were denied");
    assert!(snapshot_of(&short) == snapshot_of(&general), "the cells are the same");
    assert!(snapshot_of(&careful) == snapshot_of(&general), "the cells are the same");
}

#[test]
fn one_limit_settles_alike_on_every_path() {
    for limit in [token_bucket(7, 9), leaky_bucket(11, 5), sliding_window(9), fixed_window(9)] {
        settle_alike(&[limit], 1);
    }
}

#[test]
fn several_limits_settle_alike_on_every_path() {
    settle_alike(&[token_bucket(7, 9), token_bucket(13, 6)], 2);
    settle_alike(&[token_bucket(7, 9), sliding_window(8), fixed_window(9)], 4);
    settle_alike(&[token_bucket(20, 40), leaky_bucket(11, 5), token_bucket(9, 9), token_bucket(13, 30)], 3);
}
