//! What clients saw, and what they must never see.

use std::time::Duration;

use tidegate_testkit::processor_waits::Waited;
use tokio::time::Instant;

use super::client::{Decision, Source};

/// How long a node waits for the store unless it is told otherwise.
const DEADLINE: Duration = Duration::from_millis(15);
/// No decision may take longer: the deadline, and scheduling.
const MOST: Duration = Duration::from_millis(60);
/// Nor this, however late the node answers what needs no store: it may be the node's own fault that it is late.
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
    /// What the node, its clients and the servers it waits for waited for a processor.
    pub(super) waited: Waited,
}

impl Seen {
    pub(super) fn by(&self, source: Source) -> bool {
        self.decision.source == source
    }
}

impl Notes {
    /// Every call was answered, and no answer waited for the store longer than it may. What nobody got a
    /// processor for does not count.
    pub(super) fn assert_calm(&self) {
        assert!(self.errors.is_empty(), "{} calls failed: {:?}", self.errors.len(), self.errors.first());
        assert!(self.seen.len() > BACK, "only {} calls: there was no load", self.seen.len());
        for seen in self.seen.iter().filter(|seen| seen.took > MOST) {
            let stalled = self.longest_stall(seen.at, seen.at + seen.took);
            let waited = self.waited.between(seen.at, seen.at + seen.took);
            let most = waited + MOST_EVER.min(MOST + stalled);
            assert!(
                seen.took <= most,
                "{seen:?}, stalled for {stalled:?}, without a processor for {waited:?}"
            );
        }
    }

    /// The latest answer of those within this time that needed no store.
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
        Self { seen, errors: Vec::new(), stalls: self.stalls.clone(), waited: self.waited.clone() }
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
        // A decision that had to do without the store because nobody got a processor says nothing about it.
        let excused = |seen: &&Seen| self.waited.between(seen.at, seen.at + seen.took) >= DEADLINE;
        let fair: Vec<&Seen> =
            after.iter().filter(|seen| seen.by(Source::Redis) || !excused(seen)).copied().collect();
        let run = fair.windows(BACK).find(|run| run.iter().all(|seen| seen.by(Source::Redis)));
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
        let stalled = self.longest_stall(back, back + after);
        let waited = self.waited.between(back, back + after);
        let most = within + stalled + waited;
        assert!(
            after <= most,
            "back after {after:?}, stalled for {stalled:?}, without a processor for {waited:?}"
        );
    }
}
