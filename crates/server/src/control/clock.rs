//! The clock of the catalog, by which overrides begin and end and tokens expire.
//!
//! With it, nodes whose own clocks are wrong still agree with each other. The database reports its time whenever the
//! catalog is read. In between, and while the database is unreachable, its time advances with this node's monotonic
//! clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tidegate_catalog::ClockReading;
use tokio::time::Instant;

/// How far this node's clock may be off before that is logged.
const TOLERATED: SignedDuration = SignedDuration::from_secs(1);

/// The clock of the catalog. Clones share their state. Until the database has reported its time, and on `SQLite`, it is
/// this node's own clock.
#[derive(Clone, Default)]
pub struct CatalogClock(Arc<State>);

#[derive(Default)]
struct State {
    anchor: Mutex<Option<Anchor>>,
    warned: AtomicBool,
}

/// The same moment on both clocks.
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
    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        let anchor = *self.0.anchor.lock();
        anchor.map_or_else(own_time, |anchor| anchor.at(Instant::now()))
    }

    /// Returns how far this node's own clock is ahead; negative if it is behind, `None` if the database has not reported
    /// its time.
    pub fn skew(&self) -> Option<SignedDuration> {
        let anchor = (*self.0.anchor.lock())?;
        Some(own_time().duration_since(anchor.at(Instant::now())))
    }

    /// Adjusts the clock to what the database reported. If both agree within the time that the report took, nothing
    /// changes, so that the clock does not jitter.
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
                "this node's clock differs from the catalog's; overrides, tokens and changes use the catalog's"
            );
        } else {
            tracing::info!(skew_ms, "this node's clock agrees with the catalog's again");
        }
    }
}

/// The time by this node's own clock.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that is injected: its wall time enters here"
)]
fn own_time() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn reading(at: Timestamp, asked_at: Instant, took: Duration) -> ClockReading {
        ClockReading { at, asked_at, answered_at: asked_at + took }
    }

    #[test]
    fn it_follows_the_database_and_does_not_jitter() {
        let (clock, start) = (CatalogClock::default(), Instant::now());
        assert!(clock.skew().is_none());
        let hour = SignedDuration::from_hours(1);
        let at = own_time() - hour;
        let took = Duration::from_millis(10);
        clock.observe(reading(at, start, took));
        let anchor = (*clock.0.anchor.lock()).expect("the time was reported");
        assert_eq!(anchor.when, start + took / 2);
        let skew = clock.skew().expect("the time was reported");
        assert!((skew - hour).abs() < SignedDuration::from_mins(1), "{skew}");
        // A report that agrees within the time it took changes nothing.
        let later = start + Duration::from_secs(1);
        let at_later = at + SignedDuration::from_millis(1_002);
        clock.observe(reading(at_later, later, took));
        assert_eq!((*clock.0.anchor.lock()).expect("the time was reported").when, anchor.when);
        // One that does not agree sets the clock.
        clock.observe(reading(at + SignedDuration::from_secs(9), later, took));
        let set = (*clock.0.anchor.lock()).expect("the time was reported");
        assert_eq!(set.at(later + took / 2), at + SignedDuration::from_secs(9));
    }
}
