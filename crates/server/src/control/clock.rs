//! The clock by which overrides begin and end and tokens expire: the catalog's.
//!
//! Nodes whose own clocks are wrong then still agree with each other. The database is asked for its time with
//! every look at the catalog; in between, and while it is away, its time goes on by this node's monotonic
//! clock, which nobody sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tidegate_catalog::ClockReading;
use tokio::time::Instant;

/// How far this node's clock may be off before the log says so.
const TOLERATED: SignedDuration = SignedDuration::from_secs(1);

/// Cheap to clone: all clones are the same clock. Until the database was asked, and on `SQLite`, it is this
/// node's own.
#[derive(Clone, Default)]
pub struct CatalogClock(Arc<State>);

#[derive(Default)]
struct State {
    anchor: Mutex<Option<Anchor>>,
    warned: AtomicBool,
}

/// A moment on both clocks.
#[derive(Clone, Copy)]
struct Anchor {
    at: Timestamp,
    when: Instant,
}

impl Anchor {
    fn at(&self, when: Instant) -> Timestamp {
        let elapsed = SignedDuration::try_from(when.saturating_duration_since(self.when));
        elapsed.ok().and_then(|elapsed| self.at.checked_add(elapsed).ok()).unwrap_or(Timestamp::MAX)
    }
}

impl CatalogClock {
    /// The time now.
    pub fn now(&self) -> Timestamp {
        let anchor = *self.0.anchor.lock();
        anchor.map_or_else(Timestamp::now, |anchor| anchor.at(Instant::now()))
    }

    /// How far this node's own clock is ahead; negative if it is behind, none if nobody was asked.
    pub fn skew(&self) -> Option<SignedDuration> {
        let anchor = (*self.0.anchor.lock())?;
        Some(Timestamp::now().duration_since(anchor.at(Instant::now())))
    }

    /// Goes by what the database said. As long as that is what this clock says anyway, give or take the time
    /// the answer took, nothing changes: it does not tremble.
    pub(super) fn observe(&self, reading: ClockReading) {
        let ClockReading { at, asked_at, answered_at } = reading;
        let took = answered_at.saturating_duration_since(asked_at);
        let latest = at.checked_add(SignedDuration::try_from(took).unwrap_or(SignedDuration::ZERO));
        let mut anchor = self.0.anchor.lock();
        let agrees = |anchor: &Anchor| {
            let expected = anchor.at(answered_at);
            at <= expected && latest.as_ref().is_ok_and(|latest| expected <= *latest)
        };
        if !anchor.as_ref().is_some_and(agrees) {
            *anchor = Some(Anchor { at, when: asked_at + took / 2 });
        }
        drop(anchor);
        self.warn();
    }

    fn warn(&self) {
        let Some(skew) = self.skew() else { return };
        let off = skew.abs() > TOLERATED;
        if self.0.warned.swap(off, Ordering::Relaxed) == off {
            return;
        }
        let skew_ms = i64::try_from(skew.as_millis()).unwrap_or(i64::MAX);
        if off {
            tracing::warn!(
                skew_ms,
                "this node's clock is not the catalog's; overrides, tokens and changes go by the catalog's"
            );
        } else {
            tracing::info!(skew_ms, "this node's clock is the catalog's again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn reading(at: Timestamp, asked_at: Instant, took: Duration) -> ClockReading {
        ClockReading { at, asked_at, answered_at: asked_at + took }
    }

    #[test]
    fn it_goes_by_what_the_database_said_and_does_not_tremble() {
        let (clock, start) = (CatalogClock::default(), Instant::now());
        assert!(clock.skew().is_none());
        let hour = SignedDuration::from_hours(1);
        let at = Timestamp::now() - hour;
        let took = Duration::from_millis(10);
        clock.observe(reading(at, start, took));
        let anchor = (*clock.0.anchor.lock()).expect("it was told");
        assert_eq!(anchor.when, start + took / 2);
        let skew = clock.skew().expect("it was told");
        assert!((skew - hour).abs() < SignedDuration::from_mins(1), "{skew}");
        // An answer that took its time says nothing new.
        let later = start + Duration::from_secs(1);
        let at_later = at + SignedDuration::from_millis(1_002);
        clock.observe(reading(at_later, later, took));
        assert_eq!((*clock.0.anchor.lock()).expect("it was told").when, anchor.when);
        // One that cannot be true of this clock does.
        clock.observe(reading(at + SignedDuration::from_secs(9), later, took));
        let set = (*clock.0.anchor.lock()).expect("it was told");
        assert_eq!(set.at(later + took / 2), at + SignedDuration::from_secs(9));
    }
}
