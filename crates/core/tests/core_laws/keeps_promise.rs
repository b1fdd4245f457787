//! An algorithm never admits more than it promises.

use proptest::prelude::*;
use tidegate_core::Limit;
use tidegate_testkit::promise;
use tidegate_testkit::schedule::{Mix, schedules};

use crate::counter::{Counter, Operation};
use crate::for_all;

pub(crate) fn never_admits_more_than_it_promises(limits: impl Strategy<Value = Limit>) {
    for_all(250, (limits, schedules(Mix::Charges, 60)), |(limit, schedule)| {
        let mut counter = Counter::new(&limit, schedule.start);
        let mut admitted = Vec::new();
        for step in &schedule.steps {
            let operation = counter.arrive(step);
            let verdict = counter.perform(&operation);
            if let Operation::Charge { cost: cost @ 1.., .. } = operation
                && verdict.allowed()
            {
                admitted.push((counter.now, cost));
            }
        }
        promise::kept(&limit, &admitted).unwrap();
    });
}
