//! One of the plan's connections, as one follows the other.

use crate::error::Fault;

const FIRST_BACKOFF_NS: u64 = 10_000_000;
const LONGEST_BACKOFF_NS: u64 = 500_000_000;
/// A connection that was up for this long starts the waits over.
const LASTING_NS: u64 = 100_000_000;

/// The place of one connection.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The connection that takes new calls, by its place among all.
    pub(crate) conn: Option<usize>,
    /// Losses in a row, without a connection that lasted in between.
    failures: u32,
    up_at_ns: u64,
    retry_at_ns: u64,
    /// Since when there is no ready connection, and what happened last.
    away: Option<(u64, Fault)>,
}

impl Lane {
    /// The connection is ready.
    pub(crate) fn up(&mut self, now_ns: u64) {
        self.up_at_ns = now_ns;
        self.away = None;
    }

    /// The connection is gone, unless by a fault as a matter of routine. A new one is tried at once,
    /// and after a longer wait each time that fails or does not last.
    pub(crate) fn down(&mut self, now_ns: u64, fault: Option<Fault>) {
        self.conn = None;
        self.retry_at_ns = now_ns;
        let Some(fault) = fault else { return };
        if self.away.is_none() && now_ns.saturating_sub(self.up_at_ns) > LASTING_NS {
            self.failures = 0;
        }
        if self.failures > 0 {
            self.retry_at_ns += (FIRST_BACKOFF_NS << (self.failures - 1).min(10)).min(LONGEST_BACKOFF_NS);
        }
        self.failures += 1;
        let since_ns = self.away.take().map_or(now_ns, |(since_ns, _)| since_ns);
        self.away = Some((since_ns, fault));
    }

    /// Whether it is time to open a connection.
    pub(crate) fn wants_conn(&self, now_ns: u64) -> bool {
        self.conn.is_none() && now_ns >= self.retry_at_ns
    }

    /// Takes the fault that keeps the lane away, if it does for longer than this.
    pub(crate) fn take_away(&mut self, now_ns: u64, longer_than_ns: u64) -> Option<(u64, Fault)> {
        let away_ns = |since_ns: u64| now_ns.saturating_sub(since_ns);
        let (since_ns, fault) = self.away.take_if(|(since_ns, _)| away_ns(*since_ns) > longer_than_ns)?;
        Some((away_ns(since_ns), fault))
    }
}

#[cfg(test)]
mod tests {
    use super::Lane;
    use crate::error::Fault;

    #[test]
    fn waits_double_from_10_ms_to_500_ms_and_start_over_once_a_connection_lasted() {
        let mut lane = Lane::default();
        let wait_ms = |lane: &mut Lane, now_ms: u64| {
            lane.down(now_ms * 1_000_000, Some(Fault::Closed));
            (0..1000).find(|ms| lane.wants_conn((now_ms + ms) * 1_000_000)).unwrap()
        };
        assert_eq!([0; 9].map(|_| wait_ms(&mut lane, 0)), [0, 10, 20, 40, 80, 160, 320, 500, 500]);
        lane.up(0);
        assert_eq!(wait_ms(&mut lane, 100), 500);
        lane.up(0);
        assert_eq!(wait_ms(&mut lane, 101), 0);
    }

    #[test]
    fn a_routine_end_is_neither_waited_for_nor_held_against_the_server() {
        let mut lane = Lane::default();
        for now_ns in 0..5 {
            lane.down(now_ns, None);
            assert!(lane.wants_conn(now_ns));
        }
        assert!(lane.take_away(1_000, 10).is_none());
    }

    #[test]
    fn it_is_away_since_the_first_loss() {
        let mut lane = Lane::default();
        lane.down(10, Some(Fault::Closed));
        lane.down(20, Some(Fault::AnswersHttp1));
        assert!(lane.take_away(110, 100).is_none());
        assert!(matches!(lane.take_away(111, 100), Some((101, Fault::AnswersHttp1))));
    }
}
