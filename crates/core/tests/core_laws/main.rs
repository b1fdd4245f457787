//! The tests of this crate: laws that every algorithm must satisfy, checked on random limits and schedules.
//!
//! # Layout
//!
//! - `counter`: one key under one limit, driven through a random schedule
//! - `every_algorithm`: instantiates the laws below for every algorithm
//! - `agrees_with_oracle`, `keeps_promise`, `exact_answers`, `refunds`, `corrections`, `clock_steps`,
//!   `changes`, `forced`: the laws
//! - `queue`, `concurrency`, `calendar`, `envoy_units`, `foreign_states`: laws of some limits only
//! - `leases`: units that nodes take from a shared counter and spend on their own
//! - `limit_errors`, `windows`, `keys`: tables of cases
//! - `vectors`: the golden vectors, written by the oracles and reproduced by the code

#![expect(clippy::unwrap_used, reason = "all of it is test code, not only the functions marked as tests")]

mod agrees_with_oracle;
mod calendar;
mod changes;
mod clock_steps;
mod concurrency;
mod corrections;
mod counter;
mod envoy_units;
mod every_algorithm;
mod exact_answers;
mod forced;
mod foreign_states;
mod keeps_promise;
mod keys;
mod leases;
mod limit_errors;
mod queue;
mod refunds;
mod vectors;
mod windows;

use std::panic::Location;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

/// Checks a law, which panics where it does not hold, on so many random cases, and shrinks the first
/// that breaks it.
#[track_caller]
fn for_all<S: Strategy>(cases: u32, inputs: S, law: impl Fn(S::Value)) {
    let config = Config { source_file: Some(Location::caller().file()), ..tidegate_testkit::cases(cases) };
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        law(input);
        Ok(())
    });
    if let Err(broken) = outcome {
        panic!("{broken}");
    }
}
