//! The golden vectors of all implementations: written by the oracles, reproduced by the code.
//!
//! With `TIDEGATE_BLESS=1` the files are written; otherwise they must be what the oracles produce.

mod buckets;
mod common;
mod random;
mod slots;
mod windows;

use std::collections::HashSet;

use tidegate_core::algorithm::concurrency;
use tidegate_core::{Limit, Micros, State};
use tidegate_testkit::vector::{Expect, Op, Step, Vector, file_of, format, load};

/// An arbitrary time that is not on the boundary of any window.
const START: Micros = Micros(1_700_000_000_123_457);

/// Checks an algorithm's file, or writes it.
fn check(algorithm: &str, vectors: &[Vector]) {
    let file = file_of(algorithm);
    let text = format(vectors);
    if std::env::var("TIDEGATE_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "{} is not what the oracle says; look at what has changed, then run with TIDEGATE_BLESS=1",
        file.display()
    );
    assert!(text.len() < 100_000, "{algorithm}: {} bytes", text.len());
    assert_eq!(load(algorithm), vectors);
    let names: HashSet<_> = vectors.iter().map(|vector| &vector.name).collect();
    assert_eq!(names.len(), vectors.len(), "two vectors of {algorithm} have the same name");
    for vector in vectors {
        assert_eq!(vector.limit.algorithm, algorithm);
        reproduce(vector);
    }
}

/// Runs a vector with the code under test.
fn reproduce(vector: &Vector) {
    let mut limit = vector.limit.limit();
    let mut state = limit.fresh();
    for (index, step) in vector.steps.iter().enumerate() {
        if let Some(changed) = &step.limit {
            limit = changed.limit();
        }
        let found = perform(&limit, &mut state, step);
        assert_eq!(found, step.expect, "step {index} of {:?}: {step:?} on {state:?}", vector.name);
    }
}

fn perform(limit: &Limit, state: &mut State, step: &Step) -> Option<Expect> {
    let (now, cost, id) = (Micros(step.at_us), step.cost.unwrap_or(0), step.id.unwrap_or(0));
    if let State::Concurrency(leases) = state {
        return match step.op {
            Op::Acquire => Some(concurrency::acquire(limit, leases, id, cost, now).into()),
            Op::Renew => Some(Expect::whether(concurrency::renew(limit, leases, id, now))),
            Op::Release => Some(Expect::whether(concurrency::release(leases, id))),
            Op::Peek => Some(concurrency::assess(limit, leases, 0, now).into()),
            Op::Relimit => None,
            other => panic!("slots do not {other:?}"),
        };
    }
    match step.op {
        Op::Charge => return Some(limit.charge(state, cost, now).into()),
        Op::Hold => {
            let verdict = limit.assess(state, cost, now, true);
            if verdict.allowed() && cost > 0 {
                limit.take(state, cost, now);
            } else if cost > 0 {
                limit.carry_on(state, now);
            }
            return Some(verdict.into());
        }
        Op::Take => limit.take(state, cost, now),
        Op::Refund => limit.give_back(state, cost, now),
        Op::Peek => {}
        Op::Relimit => return None,
        other => panic!("{} does not {other:?}", limit.algorithm().name()),
    }
    Some(limit.assess(state, 0, now, false).into())
}

#[test]
fn fixed_window_reproduces_its_vectors() {
    check("fixed_window", &windows::fixed_window());
}

#[test]
fn sliding_window_reproduces_its_vectors() {
    check("sliding_window", &windows::sliding_window());
}

#[test]
fn sub_windows_reproduces_its_vectors() {
    check("sub_windows", &windows::sub_windows());
}

#[test]
fn sliding_log_reproduces_its_vectors() {
    check("sliding_log", &windows::sliding_log());
}

#[test]
fn token_bucket_reproduces_its_vectors() {
    check("token_bucket", &buckets::token_bucket());
}

#[test]
fn leaky_bucket_reproduces_its_vectors() {
    check("leaky_bucket", &buckets::leaky_bucket());
}

#[test]
fn concurrency_reproduces_its_vectors() {
    check("concurrency", &slots::concurrency());
}
