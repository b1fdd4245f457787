//! The vectors of `token_bucket` and `leaky_bucket`.

use tidegate_core::{Algorithm, LeakyMode, Limit, MAX_COUNT};
use tidegate_testkit::vector::{Recorder, Vector};

use super::START;
use super::common::{self, limit, with};
use super::random::{Dice, walk};

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;
const YEAR_US: u64 = 365 * DAY_US;
const U32_MAX: u64 = u32::MAX as u64;

type Make = fn(u64) -> Algorithm;

fn token(burst: u64) -> Algorithm {
    Algorithm::TokenBucket { burst }
}

fn meter(burst: u64) -> Algorithm {
    Algorithm::LeakyBucket { burst, mode: LeakyMode::Meter }
}

fn queue(burst: u64) -> Algorithm {
    Algorithm::LeakyBucket { burst, mode: LeakyMode::Queue }
}

/// Random walks. Where the clock steps, the burst has at most five binary digits, so that every
/// implementation agrees on which debt shows a step back.
fn walks(seed: u64, make: Make) -> impl Iterator<Item = Vector> {
    let limits = [
        (5, 10, SECOND_US),
        (3, 20, 7 * SECOND_US),
        (U32_MAX, U32_MAX, YEAR_US),
        (7, 3, SECOND_US),
        (1 << 52, 1 << 51, 30 * DAY_US),
        (1_000, 1 << 20, 3_600 * SECOND_US),
    ];
    let mut dice = Dice::new(seed);
    limits.into_iter().enumerate().map(move |(index, (requests, burst, period_us))| {
        let clock_steps = index % 2 == 1;
        let kind = if clock_steps { "walk with clock steps" } else { "walk" };
        let mode = if make(1) == queue(1) { ", queue" } else { "" };
        let limit = limit(make(burst), requests, period_us);
        let name = format!("{kind}, {requests} per {}{mode}", limit.window());
        walk(&name, &limit, &mut dice, clock_steps)
    })
}

/// Charges one unit after another, each at the first microsecond it fits, so that fractions add up.
fn drip(name: &str, limit: &Limit) -> Vector {
    let mut recorder = common::charge(Recorder::new(name, limit, START), limit.burst());
    for _ in 0..6 {
        recorder = common::charge(recorder, 1).at_retry(1);
        recorder = common::charge(recorder, 1).at_retry(0);
        recorder = common::charge(recorder, 1);
    }
    recorder.finish()
}

fn zero(make: Make) -> Vector {
    let limit = limit(make(3), 0, SECOND_US);
    let recorder = Recorder::new("zero requests", &limit, START).peek().charge(0).charge(1);
    recorder.refund(1).take(1).after(SECOND_US).charge(1).charge(4).finish()
}

fn huge(make: Make) -> Vector {
    let limit = limit(make(MAX_COUNT), MAX_COUNT, YEAR_US);
    let recorder = Recorder::new("2^53 requests a year", &limit, START).charge(MAX_COUNT - 1).charge(1);
    let recorder = recorder.charge(1).at_retry(0).charge(285).charge(286).charge(1).refund(7).peek();
    recorder
        .take(MAX_COUNT)
        .charge(MAX_COUNT)
        .at_retry(1)
        .charge(MAX_COUNT)
        .at_retry(0)
        .charge(MAX_COUNT)
        .finish()
}

pub(super) fn token_bucket() -> Vec<Vector> {
    let mut vectors = common::vectors(&limit(token(10), 5, SECOND_US));
    vectors.push(drip("thirds of a second", &limit(token(2), 3, SECOND_US)));
    vectors.push(drip("sevenths of a microsecond", &limit(token(3), 7_000_000, SECOND_US)));
    vectors.push(drip("u32::MAX a year", &limit(token(U32_MAX), U32_MAX, YEAR_US)));
    vectors.push(drip("one a year", &limit(token(1), 1, YEAR_US)));
    vectors.push(drip("many in a microsecond", &limit(token(3), 1_000, 1)));
    vectors.push(burst_then_steady());
    vectors.extend(burst_changes());
    vectors.extend([zero(token), huge(token)]);
    vectors.extend(walks(7, token));
    vectors
}

fn burst_then_steady() -> Vector {
    let limit = limit(token(20), 5, SECOND_US);
    let recorder = Recorder::new("a burst, then the steady rate", &limit, START).charge(20).charge(1);
    let recorder = recorder.after(SECOND_US).charge(5).charge(1).after(10 * SECOND_US).peek().charge(20);
    recorder.after(200_000 - 1).charge(1).after(1).charge(1).refund(1).charge(2).finish()
}

/// Changes only the burst: slightly, by much, and to one that shares bits with the old one.
fn burst_changes() -> Vec<Vector> {
    let cases = [(2_048, 1), (1_024, 1), (10, 9), (1_000, 990), (16, 1_024), (MAX_COUNT / 1024, 1 << 20)];
    let change = |(old, new): (u64, u64)| {
        let before = limit(token(old), (old / 50).max(1), SECOND_US);
        let after = with(&before, before.requests(), new);
        let recorder = Recorder::new(&format!("burst from {old} to {new}"), &before, START);
        let recorder = recorder.charge(old).relimit(&after).charge(1).at_retry(1).charge(1);
        recorder.at_retry(0).charge(1).charge(new).at_retry(0).charge(new).finish()
    };
    cases.map(change).into()
}

pub(super) fn leaky_bucket() -> Vec<Vector> {
    let mut vectors = common::vectors(&limit(meter(4), 5, SECOND_US));
    let in_queue = common::vectors(&limit(queue(4), 5, SECOND_US)).into_iter();
    vectors.extend(in_queue.map(|vector| Vector { name: format!("{}, queue", vector.name), ..vector }));
    vectors.push(drip("smooth: one at a time", &limit(meter(1), 3, SECOND_US)));
    vectors.push(drip("one at a time, queue", &limit(queue(1), 3, SECOND_US)));
    vectors.push(drip("u32::MAX a year, queue", &limit(queue(U32_MAX), U32_MAX, YEAR_US)));
    vectors.push(wave());
    vectors.push(cannot_hold());
    vectors.push(other_mode());
    vectors.extend([zero(meter), huge(meter)]);
    vectors.extend(walks(8, meter).take(4));
    vectors.extend(walks(9, queue).take(6));
    vectors
}

fn wave() -> Vector {
    let limit = limit(queue(5), 3, SECOND_US);
    let mut recorder = Recorder::new("a wave leaves evenly spaced", &limit, START);
    for _ in 0..6 {
        recorder = recorder.hold(1);
    }
    let recorder = recorder.after(400_000).hold(1).hold(1).refund(2).hold(2).after(166_667).hold(3);
    recorder.after(10 * SECOND_US).hold(2).hold(3).hold(1).finish()
}

fn cannot_hold() -> Vector {
    let limit = limit(queue(5), 3, SECOND_US);
    let recorder = Recorder::new("who cannot be held must find the queue empty", &limit, START).charge(2);
    let recorder = recorder.charge(1).hold(1).charge(6).peek().charge(1).at_retry(1).charge(1);
    recorder.at_retry(0).charge(5).charge(1).hold(1).finish()
}

fn other_mode() -> Vector {
    let before = limit(meter(4), 2, SECOND_US);
    let recorder = Recorder::new("a meter becomes a queue, and a meter again", &before, START).charge(3);
    let recorder = recorder.relimit(&limit(queue(4), 2, SECOND_US)).charge(1).hold(1).hold(1);
    recorder.after(SECOND_US).relimit(&before).charge(1).charge(2).finish()
}
