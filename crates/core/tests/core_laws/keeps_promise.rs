//! What is admitted never adds up to more than the algorithm promises.

use proptest::prelude::*;
use tidegate_core::Limit;
use tidegate_testkit::promise;
use tidegate_testkit::schedule::{Mix, schedules};

use crate::counter::{Counter, Deed};
use crate::for_all;

pub(crate) fn never_admits_more_than_it_promises(limits: impl Strategy<Value = Limit>) {
    for_all(250, (limits, schedules(Mix::Charges, 60)), |(limit, schedule)| {
        let mut counter = Counter::new(&limit, schedule.start);
        let mut admitted = Vec::new();
        for step in &schedule.steps {
            let deed = counter.arrive(step);
            let verdict = counter.perform(&deed);
            if let Deed::Charge { cost: cost @ 1.., .. } = deed
                && verdict.allowed()
            {
                admitted.push((counter.now, cost));
            }
        }
        promise::kept(&limit, &admitted).unwrap();
    });
}
