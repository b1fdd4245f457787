//! The vectors of every limit that is charged.

use tidegate_core::{Algorithm, LeakyMode, Limit, Micros, Window};
use tidegate_testkit::vector::{Recorder, Vector};

use super::START;

const YEAR_US: u64 = 365 * 86_400 * 1_000_000;

/// Returns the limit with other numbers, but the same algorithm and window.
pub(super) fn with(limit: &Limit, requests: u64, burst: u64) -> Limit {
    let algorithm = match limit.algorithm() {
        Algorithm::TokenBucket { .. } => Algorithm::TokenBucket { burst },
        Algorithm::LeakyBucket { mode, .. } => Algorithm::LeakyBucket { burst, mode },
        other => other,
    };
    Limit::new(algorithm, requests, limit.window().clone()).unwrap()
}

/// Returns a limit with a window of `period_us`.
pub(super) fn limit(algorithm: Algorithm, requests: u64, period_us: u64) -> Limit {
    Limit::new(algorithm, requests, Window::Period { us: period_us }).unwrap()
}

/// Charges a queue as a caller that can hold a request, and any other limit as one that cannot.
pub(super) fn charge(recorder: Recorder, cost: u64) -> Recorder {
    let queue = matches!(recorder.limit().algorithm(), Algorithm::LeakyBucket { mode: LeakyMode::Queue, .. });
    if queue { recorder.hold(cost) } else { recorder.charge(cost) }
}

/// Returns the vectors that apply to every limit, for this one.
pub(super) fn vectors(limit: &Limit) -> Vec<Vector> {
    let mut vectors = vec![spent(limit), never(limit), refunded(limit), forced(limit), peeked(limit)];
    vectors.extend([stepped_back(limit), jumped_ahead(limit), raised(limit), lowered(limit), banned(limit)]);
    vectors
}

fn spent(limit: &Limit) -> Vector {
    let mut recorder = Recorder::new("spent to the unit, and allowed again at the edge", limit, START);
    recorder = charge(recorder, 1);
    recorder = charge(recorder.after(1), limit.burst() - 1);
    recorder = charge(recorder, 1);
    recorder = charge(recorder.at_retry(1), 1);
    recorder = charge(recorder.at_retry(0), 1);
    recorder = charge(recorder, limit.burst());
    recorder = charge(recorder.at_retry(1), limit.burst());
    charge(recorder.at_retry(0), limit.burst()).finish()
}

fn never(limit: &Limit) -> Vector {
    let recorder = Recorder::new("a cost above the limit never fits, and takes nothing", limit, START);
    let mut recorder = charge(recorder, limit.burst() + 1);
    recorder = charge(recorder, limit.burst());
    charge(recorder.after(limit.period_us()), limit.burst() + 1).peek().finish()
}

fn refunded(limit: &Limit) -> Vector {
    let recorder = Recorder::new("a refund gives back what was taken last, never above full", limit, START);
    let recorder = recorder.refund(3).peek();
    let mut recorder = charge(recorder, limit.burst());
    recorder = charge(recorder.refund(1), 1);
    recorder = charge(recorder.after(limit.period_us() / 3).refund(limit.burst() + 7), 1);
    recorder = charge(recorder.after(limit.period_us() / 2), 1).refund(2).after(limit.period_us() / 2);
    charge(recorder.refund(1), limit.burst()).finish()
}

fn forced(limit: &Limit) -> Vector {
    let recorder = Recorder::new("a forced charge overdraws or fills the limit", limit, START);
    let recorder = recorder.take(1).take(limit.burst()).take(limit.burst());
    let mut recorder = charge(recorder.peek(), 1);
    recorder = charge(recorder.refund(1), 1);
    recorder = charge(recorder.at_retry(1), 1);
    charge(recorder.at_retry(0), 1).take(0).finish()
}

fn peeked(limit: &Limit) -> Vector {
    let recorder = Recorder::new("peeks change nothing", limit, START).peek();
    let recorder = charge(recorder.charge(0), limit.burst()).peek();
    recorder.charge(0).after(limit.period_us() / 2).peek().after(2 * limit.period_us()).peek().finish()
}

fn stepped_back(limit: &Limit) -> Vector {
    let recorder = Recorder::new("the clock steps back", limit, START);
    let mut recorder = charge(recorder, limit.burst());
    recorder = charge(recorder.before(1), 1);
    recorder = charge(recorder.before(limit.period_us()), 1);
    recorder = charge(recorder.before(3 * limit.period_us()), limit.burst());
    recorder = charge(recorder, 1);
    recorder = charge(recorder.before(10 * YEAR_US), 1).refund(1);
    recorder = charge(recorder.before(20 * YEAR_US).peek(), limit.burst());
    recorder = charge(recorder.at_retry(0), 1);
    charge(recorder.at(Micros(1)), 1).peek().finish()
}

fn jumped_ahead(limit: &Limit) -> Vector {
    let recorder = Recorder::new("the clock jumps ahead, and back", limit, START);
    let mut recorder = charge(recorder, limit.burst());
    recorder = charge(recorder.after(20 * YEAR_US), limit.burst());
    recorder = charge(recorder.at(START.plus(1)), 1);
    recorder = charge(recorder, limit.burst());
    charge(recorder.at_retry(0), limit.burst()).finish()
}

fn raised(limit: &Limit) -> Vector {
    let recorder = Recorder::new("a raised limit gives the difference at once", limit, START);
    let mut recorder = charge(recorder, limit.burst()).after(limit.period_us() / 7);
    let more = with(limit, 3 * limit.requests(), limit.burst() + 2);
    recorder = charge(recorder.relimit(&more), 1);
    recorder = charge(charge(recorder, 1), 1);
    recorder = charge(recorder, more.burst());
    charge(recorder.at_retry(0), more.burst()).finish()
}

fn lowered(limit: &Limit) -> Vector {
    let recorder = Recorder::new("a lowered limit is used up, and no further", limit, START);
    let mut recorder = charge(recorder, limit.burst()).after(limit.period_us() / 7);
    let fewer = with(limit, 1, 1);
    recorder = charge(recorder.relimit(&fewer), 1);
    recorder = charge(recorder.at_retry(1), 1);
    recorder = charge(recorder.at_retry(0), 1);
    recorder = charge(recorder, 2);
    charge(recorder.relimit(limit), 1).peek().finish()
}

fn banned(limit: &Limit) -> Vector {
    let recorder = Recorder::new("zero requests let nothing pass, and forget nothing", limit, START);
    let mut recorder = charge(recorder, limit.burst());
    recorder = charge(recorder.relimit(&with(limit, 0, limit.burst())), 1);
    recorder = charge(recorder.peek(), 1);
    charge(recorder.relimit(limit), 1).peek().finish()
}
