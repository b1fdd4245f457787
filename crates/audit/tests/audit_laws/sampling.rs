//! The sampling of denials.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use tidegate_audit::Sampler;
use tidegate_core::Micros;

const SECOND: u64 = 1_000_000;

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn no_second_has_more_than_its_share_and_none_goes_uncounted(
        per_second in 1..20_u32, steps in prop::collection::vec(0..400_000_u64, 1..300),
    ) {
        let sampler = Sampler::new(per_second);
        let mut now = Micros(1_700_000_000 * SECOND);
        let (mut taken, mut told, mut since) = (std::collections::HashMap::new(), 0, 0);
        for step in &steps {
            now = now.plus(*step);
            let of: &mut u32 = taken.entry(now.0 / SECOND).or_default();
            if let Some(unsampled) = sampler.sample(now) {
                *of += 1;
                prop_assert_eq!(unsampled, since);
                told += unsampled + 1;
                since = 0;
            } else {
                prop_assert_eq!(*of, per_second, "only what is over is left out");
                since += 1;
            }
            prop_assert!(*of <= per_second);
        }
        prop_assert_eq!(told + since, steps.len() as u64);
    }
}

#[test]
fn a_share_of_zero_takes_none() {
    let sampler = Sampler::new(0);
    assert!((0..100).all(|second| sampler.sample(Micros(second * SECOND)).is_none()));
}

#[test]
fn a_clock_that_is_set_back_does_not_silence_it() {
    let sampler = Sampler::new(1);
    assert_eq!(sampler.sample(Micros(10_000 * SECOND)), Some(0));
    assert_eq!(sampler.sample(Micros(9_999 * SECOND)), None, "two threads at the turn of a second");
    assert_eq!(sampler.sample(Micros(5_000 * SECOND)), Some(1));
}

#[test]
fn many_threads_share_one_second() {
    let sampler = Sampler::new(100);
    let (taken, told) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    if let Some(unsampled) = sampler.sample(Micros(7 * SECOND)) {
                        taken.fetch_add(1, Ordering::Relaxed);
                        told.fetch_add(unsampled, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), 100);
    let rest = sampler.sample(Micros(8 * SECOND)).expect("a new second");
    assert_eq!(rest + told.into_inner(), 40_000 - 100);
}
