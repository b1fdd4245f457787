//! Limits the frames a client may send that are not requests.

use std::time::Duration;

use tokio::time::Instant;

/// The largest balance of tokens.
const MOST: u32 = 20_000;
/// Tokens regained per second.
const PER_SECOND: u32 = 20_000;

/// Cost of a frame that does no work: a PING, an empty frame, or a frame of unknown type.
pub(crate) const NOISE: u32 = 1;
/// Cost of a stream that is opened and reset at once, of a settings change, or of a frame that can only be answered
/// with an error. No correct client needs more than a hundred of these a second.
pub(crate) const ODD: u32 = 200;
/// Cost of a call whose body is streamed: health and reflection. No client needs many of these a second.
pub(crate) const CALL: u32 = 10;
/// Cost of a request that no service handles.
pub(crate) const MISDIRECTED: u32 = 10;

/// Tokens earned for each DATA frame sent: a client sends `WINDOW_UPDATE` for what it has read, and some clients send
/// a PING to measure the round trip.
const PER_PIECE: u32 = 4;

/// A token bucket for frames that cost the server more than the client.
#[derive(Debug)]
pub(crate) struct Calm {
    left: u32,
    since: Instant,
}

impl Calm {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: MOST, since: now }
    }

    /// Adds the tokens earned by sending a DATA frame.
    #[inline]
    pub(crate) fn earn(&mut self) {
        self.left = (self.left + PER_PIECE).min(MOST);
    }

    /// Spends `cost` tokens. Returns `false` if there are too few. The refill is computed only when tokens run short.
    #[inline]
    pub(crate) fn spend(&mut self, cost: u32, now: Instant) -> bool {
        if self.left < cost {
            let back = now.saturating_duration_since(self.since).min(Duration::from_secs(1));
            let back = back.as_millis() as u32 * (PER_SECOND / 1000);
            self.left = (self.left + back).min(MOST);
            self.since = now;
        }
        let enough = self.left >= cost;
        self.left -= cost.min(self.left);
        enough
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Calm, ODD};

    #[test]
    fn what_was_spent_comes_back_in_time() {
        let begin = Instant::now();
        let mut calm = Calm::new(begin);
        assert!((0..100).all(|_| calm.spend(ODD, begin)) && !calm.spend(ODD, begin));
        let later = begin + Duration::from_millis(100);
        assert!((0..10).all(|_| calm.spend(ODD, later)) && !calm.spend(ODD, later));
        let much_later = begin + Duration::from_hours(1);
        assert!((0..100).all(|_| calm.spend(ODD, much_later)) && !calm.spend(ODD, much_later));
    }
}
