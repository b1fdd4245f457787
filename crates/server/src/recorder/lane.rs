//! Which decisions are sampled, and where samples wait until they are taken in.
//!
//! Every thread has a lane. A decision decrements a countdown of its lane, one for allowed and one for denied requests;
//! the decision that reaches 0 is copied. Up to [`BUDGET`] samples a period every decision is one; beyond, the gap
//! doubles until the samples fit, and each stands for as many decisions as the gap has on average.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::sample::Sample;

/// Lanes of a recorder; threads beyond share them.
const LANES: usize = 32;
/// Samples of each kind that a lane takes in a period before it widens the gap.
const BUDGET: u32 = 40;
/// The length of a period in microseconds.
const PERIOD_US: u64 = 100_000;
/// The widest gap.
const MAX_GAP: u32 = 1 << 16;
/// Samples that wait in one lane; those beyond are dropped and counted.
const MAX_WAITING: usize = 512;

/// The lanes of a recorder.
pub(super) struct Lanes {
    lanes: Box<[Lane]>,
    dropped: AtomicU64,
}

/// The data that one thread writes. Aligned to cache lines, so that threads do not slow each other down.
#[derive(Default)]
#[repr(align(128))]
struct Lane {
    allowed: Countdown,
    denied: Countdown,
    waiting: Mutex<Vec<Sample>>,
}

/// Counts decisions down to the next sample. Threads that share a lane may lose a decrement to each other.
struct Countdown {
    left: AtomicU32,
    /// The average number of decisions from one sample to the next.
    gap: AtomicU32,
    /// Samples in this period, and the period.
    taken: AtomicU32,
    period: AtomicU64,
    /// Samples since the last [`Countdown::ease`].
    recent: AtomicU32,
}

impl Default for Countdown {
    fn default() -> Self {
        Self {
            left: AtomicU32::new(1),
            gap: AtomicU32::new(1),
            taken: AtomicU32::new(0),
            period: AtomicU64::new(0),
            recent: AtomicU32::new(0),
        }
    }
}

thread_local! {
    /// The number of this thread's lane, plus one; 0 before it has one.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

impl Default for Lanes {
    fn default() -> Self {
        Self { lanes: (0..LANES).map(|_| Lane::default()).collect(), dropped: AtomicU64::new(0) }
    }
}

impl Lanes {
    /// Returns whether the decision of this thread is to be sampled.
    #[inline]
    pub(super) fn is_due(&self, allowed: bool) -> bool {
        let lane = self.lane();
        let countdown = if allowed { &lane.allowed } else { &lane.denied };
        let left = countdown.left.load(Relaxed).wrapping_sub(1);
        countdown.left.store(left, Relaxed);
        left == 0
    }

    /// Returns for how many decisions the sample that is due stands, and starts the next countdown.
    pub(super) fn weight(&self, allowed: bool, now_us: u64) -> u32 {
        let lane = self.lane();
        if allowed { lane.allowed.restart(now_us) } else { lane.denied.restart(now_us) }
    }

    /// Keeps a sample until it is taken in. One that finds no room is dropped and counted.
    pub(super) fn push(&self, sample: Sample) {
        let mut waiting = self.lane().waiting.lock();
        if waiting.len() < MAX_WAITING {
            waiting.push(sample);
        } else {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Takes all samples that wait.
    pub(super) fn take(&self, into: &mut Vec<Sample>) {
        for lane in &self.lanes {
            into.append(&mut lane.waiting.lock());
        }
    }

    /// Narrows the gaps of lanes that have less to do than a second ago. To be called once a second.
    pub(super) fn ease(&self) {
        for lane in &self.lanes {
            lane.allowed.ease();
            lane.denied.ease();
        }
    }

    /// Returns how many samples were dropped because too many waited.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    #[inline]
    fn lane(&self) -> &Lane {
        let number = NUMBER.get();
        // The length is a constant, so this compiles to a mask.
        &self.lanes[if number == 0 { new_number() } else { number } as usize % LANES]
    }
}

#[cold]
fn new_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed) % u32::MAX + 1;
    NUMBER.set(number);
    RANDOM.set(RANDOM.get().wrapping_mul(u64::from(number) * 2 + 1));
    number
}

/// Returns a random number by xorshift, which is random enough to be out of step with the traffic.
fn random() -> u64 {
    let mut word = RANDOM.get();
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    RANDOM.set(word);
    word
}

impl Countdown {
    fn restart(&self, now_us: u64) -> u32 {
        let weight = self.gap.load(Relaxed);
        let period = now_us / PERIOD_US;
        let same = self.period.swap(period, Relaxed) == period;
        let taken = if same { self.taken.load(Relaxed) + 1 } else { 1 };
        self.recent.fetch_add(1, Relaxed);
        let gap = if taken > BUDGET { (weight * 2).min(MAX_GAP) } else { weight };
        self.taken.store(if taken > BUDGET { BUDGET / 2 } else { taken }, Relaxed);
        self.gap.store(gap, Relaxed);
        // From 1 to twice the gap less one: the gap on average, and not in step with anything.
        self.left.store(1 + (random() % u64::from(gap * 2 - 1)) as u32, Relaxed);
        weight
    }

    fn ease(&self) {
        let (gap, recent) = (self.gap.load(Relaxed), self.recent.swap(0, Relaxed));
        let per_second = BUDGET * (1_000_000 / PERIOD_US) as u32;
        if gap > 1 && recent < per_second / 4 {
            // Half the budget is left free, so that it does not widen again at once.
            let fitting = (u64::from(gap) * u64::from(recent) * 2).div_ceil(u64::from(per_second));
            let gap = (fitting as u32).clamp(1, gap);
            self.gap.store(gap, Relaxed);
            let left = self.left.load(Relaxed);
            self.left.store(left.clamp(1, gap), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_is_sampled_until_the_budget_is_spent() {
        let lanes = Lanes::default();
        for _ in 0..BUDGET {
            assert!(lanes.is_due(true));
            assert_eq!(lanes.weight(true, 5), 1);
        }
        assert!(lanes.is_due(false), "denied requests have a budget of their own");
    }

    #[test]
    fn samples_stand_for_as_many_decisions_as_there_were() {
        const DECISIONS: u64 = 1_000_000;
        let lanes = Lanes::default();
        let (mut weight, mut samples) = (0, 0);
        for number in 0..DECISIONS {
            if lanes.is_due(true) {
                weight += u64::from(lanes.weight(true, number));
                samples += 1;
            }
        }
        assert!((DECISIONS * 9 / 10..DECISIONS * 11 / 10).contains(&weight), "{weight}");
        // A million decisions in a second: twice the budget of ten periods at most, and the start.
        assert!((200..2_000).contains(&samples), "{samples}");
    }

    #[test]
    fn every_decision_is_sampled_again_a_second_after_a_flood() {
        let lanes = Lanes::default();
        for number in 0..1_000_000 {
            if lanes.is_due(false) {
                lanes.weight(false, number);
            }
        }
        lanes.ease();
        lanes.ease();
        assert!(lanes.is_due(false));
        assert_eq!(lanes.weight(false, 3_000_000), 1);
    }
}
