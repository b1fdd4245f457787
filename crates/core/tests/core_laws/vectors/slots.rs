//! The vectors of concurrency.

use tidegate_core::{Algorithm, Limit, Micros};
use tidegate_testkit::vector::{Recorder, Vector};

use super::START;
use super::common::limit;
use super::random::Dice;

const MINUTE_US: u64 = 60_000_000;

fn slots(max: u64) -> Limit {
    limit(Algorithm::Concurrency, max, MINUTE_US)
}

pub(super) fn concurrency() -> Vec<Vector> {
    let mut vectors = vec![held(), crashed(), renewed(), several(), changed(), stepped(), edges()];
    let mut dice = Dice::new(10);
    for max in [1, 2, 3, 5, 8, 1_000_000] {
        vectors.push(walk(&format!("walk, {max} at once"), &slots(max), &mut dice));
    }
    vectors
}

fn held() -> Vector {
    let recorder = Recorder::new("at most so many at once", &slots(2), START).peek().acquire(1, 1);
    let recorder = recorder.after(1).acquire(2, 1).acquire(3, 1).peek().release(1).acquire(3, 1);
    recorder.release(1).acquire(4, 1).release(2).release(3).release(3).peek().finish()
}

fn crashed() -> Vector {
    let recorder = Recorder::new("a crashed holder's slot returns after the time-out", &slots(1), START);
    let recorder = recorder.acquire(1, 1).acquire(2, 1).at_retry(1).acquire(2, 1).at_retry(0).acquire(2, 1);
    recorder.renew(1).release(1).peek().finish()
}

fn renewed() -> Vector {
    let recorder = Recorder::new("renewing starts the time-out anew", &slots(1), START).acquire(1, 1);
    let recorder = recorder.after(MINUTE_US - 1).renew(1).after(1).acquire(2, 1).after(MINUTE_US - 2);
    recorder.acquire(2, 1).after(1).renew(1).acquire(2, 1).renew(2).renew(9).finish()
}

fn several() -> Vector {
    let recorder = Recorder::new("holders of several slots", &slots(5), START).acquire(1, 2).after(10);
    let recorder = recorder.acquire(2, 2).after(10).acquire(3, 2).acquire(3, 1).acquire(4, 1).acquire(4, 3);
    let recorder = recorder.acquire(4, 5).acquire(4, 6).renew(1).acquire(4, 2).acquire(4, 3).at_retry(1);
    recorder.acquire(4, 3).at_retry(0).acquire(4, 3).peek().finish()
}

fn changed() -> Vector {
    let recorder = Recorder::new("max is lowered and raised", &slots(4), START).acquire(1, 2).after(10);
    let recorder = recorder.acquire(2, 2).relimit(&slots(3)).acquire(3, 1).peek().acquire(3, 3);
    let recorder = recorder.at_retry(1).acquire(3, 1).at_retry(0).acquire(3, 1).acquire(4, 1);
    recorder.relimit(&slots(6)).acquire(4, 3).acquire(5, 1).relimit(&slots(0)).acquire(6, 1).peek().finish()
}

fn stepped() -> Vector {
    let recorder = Recorder::new("the clock steps back", &slots(2), START).acquire(1, 1).after(1_000);
    let recorder = recorder.acquire(2, 1).before(1).peek().acquire(3, 1).renew(2).renew(1).peek();
    let recorder = recorder.before(10 * MINUTE_US).peek().acquire(4, 2).acquire(5, 1).at_retry(0);
    recorder.acquire(5, 1).after(1_000 * MINUTE_US).peek().acquire(6, 2).at(Micros(1)).acquire(7, 2).finish()
}

fn edges() -> Vector {
    let recorder = Recorder::new("a million slots", &slots(1_000_000), START).acquire(1, 1_000_001);
    let recorder =
        recorder.acquire(1, 999_999).after(5).acquire(2, 1).acquire(3, 1).at_retry(0).acquire(3, 1);
    recorder
        .acquire(4, 1_000_000)
        .at_retry(1)
        .acquire(4, 1_000_000)
        .at_retry(0)
        .acquire(4, 1_000_000)
        .finish()
}

/// A random walk of holders. None acquires with an ID that still holds slots, or releases slots that have
/// timed out: the vectors do not specify the result.
fn walk(name: &str, limit: &Limit, dice: &mut Dice) -> Vector {
    let mut recorder = Recorder::new(name, limit, START);
    let mut held: Vec<(u64, Micros)> = Vec::new();
    for id in 0..24 {
        recorder = match dice.below(4) {
            0 => recorder.at_retry(dice.below(2)),
            _ => recorder.after(dice.below(MINUTE_US / 3)),
        };
        let (now, until) = (recorder.now(), recorder.now().plus(MINUTE_US));
        held.retain(|(_, until)| now < *until);
        let chosen = dice.below(held.len().max(1) as u64) as usize;
        recorder = match (dice.below(6), held.get(chosen).copied()) {
            (0, Some((holder, _))) => {
                held[chosen].1 = until;
                recorder.renew(holder)
            }
            (1, Some((holder, _))) => {
                held.remove(chosen);
                recorder.release(holder).release(holder)
            }
            (2, _) => recorder.peek(),
            _ => {
                let cost = 1 + dice.below(limit.requests().min(3));
                let acquired = recorder.acquire(id, cost);
                if acquired.last().is_some_and(|verdict| verdict.allowed()) {
                    held.push((id, until));
                }
                acquired
            }
        };
    }
    recorder.finish()
}
