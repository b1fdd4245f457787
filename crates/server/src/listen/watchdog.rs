//! Decides when to close a connection: because it sends no request, sends one too slowly, does not read its
//! responses, has been idle for too long, or is too old.

use std::time::Duration;

use tokio::time::Instant;

use super::stream::Activity;

/// How long each phase of a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the TLS handshake and the HTTP/2 preface.
    pub handshake: Duration,
    /// For the headers of a request, and for a client that does not read its response.
    pub header: Duration,
    /// For an open connection without a request; `None` for no limit.
    pub idle: Option<Duration>,
    /// The age at which a connection is asked to close, and how long it may take to do so.
    pub age: Option<(Duration, Duration)>,
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let it continue.
    Continue,
    /// Ask it to finish its requests and close.
    ShutDown,
    /// Close it now.
    Close,
}

/// Checks one connection repeatedly, and decides when to close it.
pub struct Watchdog {
    timeouts: Timeouts,
    /// Whether the connection is HTTP/2 only, with a server that closes idle connections itself.
    http2_only: bool,
    born: Instant,
    next: Instant,
    /// When the connection is closed, once it was asked to close.
    close_at: Option<Instant>,
    /// Since when the connection has been in the state of the last check: without a request, or within the headers of
    /// one.
    since: Instant,
    /// The state at the last check: requests begun, and whether bytes of another had arrived.
    seen: (u64, bool),
    /// Since when the client has not read, and the number from [`Activity::stuck`].
    stuck: Option<(Instant, u64)>,
}

impl Watchdog {
    /// Returns the watchdog of a new connection.
    pub fn new(timeouts: Timeouts, http2_only: bool, born: Instant) -> Self {
        let (close_at, seen, stuck) = (None, (0, true), None);
        let mut watchdog =
            Self { timeouts, http2_only, born, next: born, close_at, since: born, seen, stuck };
        watchdog.schedule(born);
        watchdog
    }

    /// Returns when the next check is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Checks the connection and returns what to do with it.
    pub fn check(&mut self, activity: &Activity, now: Instant) -> Action {
        let action = self.judge(activity, now);
        if action == Action::ShutDown {
            let grace = self.timeouts.age.map_or(self.timeouts.header, |(_, grace)| grace);
            self.close_at = Some(now + grace);
        }
        self.schedule(now);
        action
    }

    fn judge(&mut self, activity: &Activity, now: Instant) -> Action {
        if let Some(close_at) = self.close_at {
            return if now >= close_at { Action::Close } else { Action::Continue };
        }
        if self.timeouts.age.is_some_and(|(age, _)| now >= self.born + age) {
            return Action::ShutDown;
        }
        if self.is_stuck(activity, now) {
            return Action::Close;
        }
        if self.http2_only {
            let late = !activity.multiplexed() && now >= self.born + self.timeouts.handshake;
            return if late { Action::Close } else { Action::Continue };
        }
        let started = activity.started();
        // A connection without a request yet is treated as if its headers had begun. Over HTTP/2 bytes say nothing:
        // responses to pings are among them, which show that it is alive.
        let in_headers = !activity.multiplexed() && (started == 0 || activity.bytes_since_begin());
        if activity.in_flight() > 0 || (started, in_headers) != self.seen {
            // Before the first request, the age of the connection counts.
            self.since = if started == 0 { self.born } else { now };
            self.seen = (started, in_headers);
            if started > 0 {
                return Action::Continue;
            }
        }
        let quiet = now - self.since;
        if in_headers {
            return if quiet >= self.timeouts.header { Action::Close } else { Action::Continue };
        }
        if self.timeouts.idle.is_some_and(|idle| quiet >= idle) { Action::ShutDown } else { Action::Continue }
    }

    /// Returns whether the client has not read its responses for too long. They use memory meanwhile.
    fn is_stuck(&mut self, activity: &Activity, now: Instant) -> bool {
        let Some(time) = activity.stuck() else {
            self.stuck = None;
            return false;
        };
        match self.stuck {
            Some((since, known)) if known == time => now - since >= self.timeouts.header,
            _ => {
                self.stuck = Some((now, time));
                false
            }
        }
    }

    fn schedule(&mut self, now: Instant) {
        let often = self.timeouts.handshake.min(self.timeouts.header) / 2;
        let mut next = now + often.max(Duration::from_millis(100));
        if let Some(close_at) = self.close_at {
            next = close_at;
        } else if let Some((age, _)) = self.timeouts.age {
            next = next.min(self.born + age);
        }
        // Not at once, because a check is cheap but not free.
        self.next = next.max(now + Duration::from_millis(10));
    }
}
