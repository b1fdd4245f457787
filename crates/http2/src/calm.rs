//! How much a client may send that is no request.

use std::time::Duration;

use tokio::time::Instant;

/// What may be spent at once.
const MOST: u32 = 20_000;
/// What comes back in a second.
const PER_SECOND: u32 = 20_000;

/// What a frame costs that asks for nothing: a ping, an empty frame, one of an unknown kind.
pub(crate) const NOISE: u32 = 1;
/// What it costs to have a stream opened and reset at once, settings changed, or to send what can
/// only be answered by an error. Nobody has reason to do any of it more than a hundred times a
/// second.
pub(crate) const ODD: u32 = 200;
/// What it costs to call what is not collected: health and reflection, of which nobody needs many a second.
pub(crate) const CALL: u32 = 10;
/// What a request costs that nobody answers.
pub(crate) const MISDIRECTED: u32 = 10;

/// What comes back with every piece of an answer: a client grants more for what it has read, and some
/// ping to learn how fast that was.
const PER_PIECE: u32 = 4;

/// An allowance for what costs the server more than the client.
#[derive(Debug)]
pub(crate) struct Calm {
    left: u32,
    since: Instant,
}

impl Calm {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: MOST, since: now }
    }

    /// A piece of an answer is sent.
    #[inline]
    pub(crate) fn earn(&mut self) {
        self.left = (self.left + PER_PIECE).min(MOST);
    }

    /// Whether there is enough left. Time is looked at only if not.
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
