//! A lane: the successive connections that replace each other.

use crate::error::Fault;

const FIRST_BACKOFF_NS: u64 = 10_000_000;
const LONGEST_BACKOFF_NS: u64 = 500_000_000;
/// A connection that was ready for this long resets the backoff.
const LASTING_NS: u64 = 100_000_000;

/// One of the plan's connections, over successive sockets.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The index of the connection that takes new calls.
    pub(crate) conn: Option<usize>,
    /// The number of consecutive losses without a lasting connection in between.
    failures: u32,
    up_at_ns: u64,
    retry_at_ns: u64,
    /// Since when there is no ready connection, and the last error.
    away: Option<(u64, Fault)>,
}

impl Lane {
    /// Records that the connection is ready.
    pub(crate) fn up(&mut self, now_ns: u64) {
        self.up_at_ns = now_ns;
        self.away = None;
    }

    /// Records that the connection has ended; without a `fault`, that is routine. A new one is opened at
    /// once, and after a growing delay if connections fail or do not last.
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

    /// Returns whether it is time to open a connection.
    pub(crate) fn wants_conn(&self, now_ns: u64) -> bool {
        self.conn.is_none() && now_ns >= self.retry_at_ns
    }

    /// If there has been no ready connection for longer than `longer_than_ns`, returns for how long, and the
    /// last error.
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
