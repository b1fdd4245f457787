//! What each algorithm guarantees, checked over a history of admitted charges by brute force.

use tidegate_core::{Algorithm, Limit, Micros, Window};

use crate::oracle::{CivilWindows, Exact};

/// Admitted charges in order of time: the time, and the number of units.
pub type Admitted = [(Micros, u64)];

/// Checks that the admitted charges keep the promise of the limit.
///
/// # Errors
/// Returns a message that names the interval in which too much was admitted.
pub fn kept(limit: &Limit, admitted: &Admitted) -> Result<(), String> {
    let requests = Exact::from(i128::from(limit.requests()));
    for (last, (end, _)) in admitted.iter().enumerate() {
        for (first, (start, _)) in admitted[..=last].iter().enumerate() {
            let passed = weigh(limit, &admitted[first..=last], *end);
            let Some(most) = most(limit, *start, *end, requests) else { continue };
            if passed > most {
                return Err(format!(
                    "from {start:?} to {end:?} {passed} passed, where {limit:?} promises {most} at most"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the most units that may pass from `start` to `end`, both included, or `None` if the algorithm
/// promises nothing for this interval.
fn most(limit: &Limit, start: Micros, end: Micros, requests: Exact) -> Option<Exact> {
    let period_us = limit.period_us();
    let together = match limit.algorithm() {
        Algorithm::FixedWindow => match limit.window() {
            Window::Period { us } => start.0 / us == end.0 / us,
            Window::Calendar(calendar) => {
                let windows = CivilWindows::new(calendar.unit(), calendar.zone_name());
                windows.start_of(start) == windows.start_of(end)
            }
        },
        // Both are in the window of `end` or the one before it; `weigh` applies the overlap.
        Algorithm::SlidingWindow => start.0 / period_us + 1 >= end.0 / period_us,
        Algorithm::SubWindows { buckets } => {
            let bucket = |at: Micros| u128::from(at.0) * u128::from(buckets) / u128::from(period_us);
            let shorter = u128::from(end.since(start)) * u128::from(buckets)
                <= u128::from(period_us) * u128::from(buckets - 1);
            let neighbours = bucket(end) - bucket(start) < u128::from(buckets);
            assert!(neighbours || !shorter, "so short a time cannot touch so many buckets");
            neighbours
        }
        Algorithm::SlidingLog => end.since(start) < period_us,
        Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. } => {
            let time_us = Exact::from(i128::from(end.since(start)));
            let burst = Exact::from(i128::from(limit.burst()));
            return Some(burst + time_us * requests / Exact::from(i128::from(period_us)));
        }
        Algorithm::Concurrency => false,
    };
    together.then_some(requests)
}

/// Returns the units charged. For sliding windows, those of the previous window are weighted by its overlap
/// at `end`.
fn weigh(limit: &Limit, charges: &Admitted, end: Micros) -> Exact {
    let period_us = limit.period_us();
    let overlap_us = period_us - end.0 % period_us;
    let overlap = Exact::new(i128::from(overlap_us), i128::from(period_us));
    let weight = |at: Micros| {
        let before = limit.algorithm() == Algorithm::SlidingWindow && at.0 / period_us != end.0 / period_us;
        if before { overlap } else { Exact::from(1) }
    };
    charges.iter().map(|(at, cost)| Exact::from(i128::from(*cost)) * weight(*at)).sum()
}
