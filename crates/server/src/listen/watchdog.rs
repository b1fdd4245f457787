//! Which connections have outstayed their welcome: those that send no request, or one too slowly,
//! those that do not take their answers, those that have been quiet for too long, and those that are old.

use std::time::Duration;

use tokio::time::Instant;

use super::stream::Pulse;

/// How long everything may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// TLS, and the first bytes of HTTP/2.
    pub handshake: Duration,
    /// The headers of a request, and the least progress of an answer.
    pub header: Duration,
    /// A kept connection without a request.
    pub idle: Option<Duration>,
    /// A connection, before it is asked to go, and what it may take to.
    pub age: Option<(Duration, Duration)>,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It may go on.
    Fine,
    /// It is to finish what it has and go.
    Ask,
    /// It is closed now.
    Close,
}

/// Looks at one connection now and then.
pub struct Watchdog {
    patience: Patience,
    /// Whether nothing but HTTP/2 is spoken here, by a server that looks after idle connections itself.
    http2_only: bool,
    born: Instant,
    next: Instant,
    /// When it has to be gone, once it was asked to go.
    gone_by: Option<Instant>,
    /// Since when the connection has been as it was at the last look: without a request, or within
    /// the headers of one.
    since: Instant,
    /// What the last look saw: requests begun, and whether bytes of another had come.
    seen: (u64, bool),
    /// Since when the other side has taken nothing, and which time that is.
    stuck: Option<(Instant, u64)>,
}

impl Watchdog {
    /// Watches a connection from its beginning.
    pub fn new(patience: Patience, http2_only: bool, born: Instant) -> Self {
        let (gone_by, seen, stuck) = (None, (0, true), None);
        let mut watchdog = Self { patience, http2_only, born, next: born, gone_by, since: born, seen, stuck };
        watchdog.schedule(born);
        watchdog
    }

    /// When to look next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Looks.
    pub fn look(&mut self, pulse: &Pulse, now: Instant) -> Finding {
        let finding = self.judge(pulse, now);
        if finding == Finding::Ask {
            let grace = self.patience.age.map_or(self.patience.header, |(_, grace)| grace);
            self.gone_by = Some(now + grace);
        }
        self.schedule(now);
        finding
    }

    fn judge(&mut self, pulse: &Pulse, now: Instant) -> Finding {
        if let Some(gone_by) = self.gone_by {
            return if now >= gone_by { Finding::Close } else { Finding::Fine };
        }
        if self.patience.age.is_some_and(|(age, _)| now >= self.born + age) {
            return Finding::Ask;
        }
        if self.is_stuck(pulse, now) {
            return Finding::Close;
        }
        if self.http2_only {
            let late = !pulse.multiplexed() && now >= self.born + self.patience.handshake;
            return if late { Finding::Close } else { Finding::Fine };
        }
        let started = pulse.started();
        // A connection that never sent a request is waited for as if its headers had begun. Over HTTP/2
        // bytes tell nothing: answers to pings are among them, which also tell that it is alive.
        let in_headers = !pulse.multiplexed() && (started == 0 || pulse.bytes_since_begin());
        if pulse.in_flight() > 0 || (started, in_headers) != self.seen {
            // In the beginning there is nothing to compare with, and the connection's age counts.
            self.since = if started == 0 { self.born } else { now };
            self.seen = (started, in_headers);
            if started > 0 {
                return Finding::Fine;
            }
        }
        let quiet = now - self.since;
        if in_headers {
            return if quiet >= self.patience.header { Finding::Close } else { Finding::Fine };
        }
        if self.patience.idle.is_some_and(|idle| quiet >= idle) { Finding::Ask } else { Finding::Fine }
    }

    /// Whether the other side has taken nothing of its answers for too long. What is left of them is kept
    /// meanwhile, and there may be many such connections.
    fn is_stuck(&mut self, pulse: &Pulse, now: Instant) -> bool {
        let Some(time) = pulse.stuck() else {
            self.stuck = None;
            return false;
        };
        match self.stuck {
            Some((since, known)) if known == time => now - since >= self.patience.header,
            _ => {
                self.stuck = Some((now, time));
                false
            }
        }
    }

    fn schedule(&mut self, now: Instant) {
        let often = self.patience.handshake.min(self.patience.header) / 2;
        let mut next = now + often.max(Duration::from_millis(100));
        if let Some(gone_by) = self.gone_by {
            next = gone_by;
        } else if let Some((age, _)) = self.patience.age {
            next = next.min(self.born + age);
        }
        // Never at once again: a look costs little, but not nothing.
        self.next = next.max(now + Duration::from_millis(10));
    }
}
