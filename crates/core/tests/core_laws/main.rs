//! The proof of this crate: laws that every algorithm keeps, on random limits and schedules.
//!
//! # Layout
//!
//! - `counter`: one key under one limit, driven through a random schedule
//! - `every_algorithm`: stamps the laws below over every algorithm
//! - `agrees_with_oracle`, `keeps_promise`, `exact_answers`, `refunds`, `corrections`, `clock_steps`, `changes`,
//!   `forced`: the laws
//! - `queue`, `concurrency`, `calendar`, `envoy_units`, `foreign_states`: what only some limits do
//! - `limit_errors`, `windows`, `keys`: tables
//! - `vectors`: the golden vectors, made by the oracles and reproduced by the code

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
mod limit_errors;
mod queue;
mod refunds;
mod vectors;
mod windows;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

/// Checks a law, which panics where it does not hold, on so many random cases, and shrinks the first
/// that breaks it. `TIDEGATE_SOAK=100` checks a hundred times as many.
fn for_all<S: Strategy>(cases: u32, inputs: S, law: impl Fn(S::Value)) {
    let soak = std::env::var("TIDEGATE_SOAK").map_or(1, |times| times.parse().expect("a number"));
    let config = Config { cases: cases * soak, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        law(input);
        Ok(())
    });
    if let Err(broken) = outcome {
        panic!("{broken}");
    }
}
