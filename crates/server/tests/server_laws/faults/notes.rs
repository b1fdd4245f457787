//! What clients saw, and what they must never see.

use std::time::Duration;

use tokio::time::Instant;

use super::client::{Decision, Source};

/// No decision may take longer: the deadline of 15 ms, and scheduling.
const MOST: Duration = Duration::from_millis(60);
/// Nor this, whatever else the machine has to do.
const MOST_EVER: Duration = Duration::from_millis(600);
/// So many decisions in a row by the store, and it is back.
const BACK: usize = 20;

/// One decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) key: &'static str,
    pub(super) value: u32,
    /// When it was asked for.
    pub(super) at: Instant,
    pub(super) took: Duration,
    pub(super) decision: Decision,
}

/// How late an answer was that needs no store: what clients and node waited for a processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    pub(super) at: Instant,
    pub(super) took: Duration,
}

/// Everything that the clients of a node saw, in the order they asked.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) seen: Vec<Seen>,
    pub(super) errors: Vec<String>,
    pub(super) stalls: Vec<Stall>,
}

impl Seen {
    pub(super) fn by(&self, source: Source) -> bool {
        self.decision.source == source
    }
}

impl Notes {
    /// Every call was answered, and no answer waited for the store longer than it may.
    pub(super) fn assert_calm(&self) {
        assert!(self.errors.is_empty(), "{} calls failed: {:?}", self.errors.len(), self.errors.first());
        assert!(self.seen.len() > BACK, "only {} calls: there was no load", self.seen.len());
        for seen in self.seen.iter().filter(|seen| seen.took > MOST) {
            let excuse = self.longest_stall(seen.at, seen.at + seen.took);
            assert!(seen.took <= MOST + excuse && seen.took <= MOST_EVER, "{seen:?}, stalled for {excuse:?}");
        }
    }

    /// The longest wait for a processor that falls into this time.
    fn longest_stall(&self, from: Instant, to: Instant) -> Duration {
        let within = self.stalls.iter().filter(|stall| stall.at < to && stall.at + stall.took > from);
        within.map(|stall| stall.took).max().unwrap_or_default()
    }

    /// What was asked for and answered within this time.
    pub(super) fn between(&self, from: Instant, to: Instant) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(move |seen| seen.at >= from && seen.at + seen.took <= to)
    }

    /// What clients saw of some calls.
    pub(super) fn only(&self, wanted: impl Fn(&Seen) -> bool) -> Self {
        let seen = self.seen.iter().filter(|seen| wanted(seen)).copied().collect();
        Self { seen, errors: Vec::new(), stalls: self.stalls.clone() }
    }

    /// The store decided all of this.
    pub(super) fn assert_by_store(&self) {
        let other = self.seen.iter().find(|seen| !seen.by(Source::Redis));
        assert!(other.is_none() && self.seen.len() > BACK, "{other:?} of {} calls", self.seen.len());
    }

    /// How many calls of a key were let pass by this.
    pub(super) fn admitted(&self, key: &str, source: Source) -> usize {
        let passed = |seen: &&Seen| seen.key == key && seen.decision.allowed && seen.by(source);
        self.seen.iter().filter(passed).count()
    }

    /// While the store was away, rules decided as they say: what is open passed, what is closed did not.
    pub(super) fn assert_policies(&self, from: Instant, to: Instant) {
        let mut decided = 0;
        for seen in self.between(from, to) {
            if seen.key == "open" || seen.key == "closed" {
                assert!(seen.by(Source::Fallback), "the store is away, and yet {seen:?}");
                assert_eq!(seen.decision.allowed, seen.key == "open", "{seen:?}");
                decided += 1;
            }
        }
        assert!(decided > BACK, "only {decided} decisions without the store: there was no load");
    }

    /// How long after this the store decided again, for good.
    pub(super) fn back_after(&self, back: Instant) -> Duration {
        let after: Vec<&Seen> = self.seen.iter().filter(|seen| seen.at >= back).collect();
        let run = after.windows(BACK).find(|run| run.iter().all(|seen| seen.by(Source::Redis)));
        let Some(run) = run else {
            let (all, by_it) = (after.len(), after.iter().filter(|seen| seen.by(Source::Redis)).count());
            panic!("the store never came back: it decided {by_it} of {all} calls");
        };
        run[0].at - back
    }

    /// The store decided again within this time of being back. What nobody got a processor for does not
    /// count.
    pub(super) fn assert_back(&self, back: Instant, within: Duration) {
        let after = self.back_after(back);
        let excuse = self.longest_stall(back, back + after);
        assert!(after <= within + excuse, "back after {after:?}, stalled for {excuse:?}");
    }
}
