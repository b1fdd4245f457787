//! The oracle of `leaky_bucket`. The bucket drains at `requests` per period, so the room left equals the
//! tokens of a token bucket. A meter allows what there is room for. A queue allows at once what finds the
//! bucket empty, and holds what there is room for until everything before it has drained.

use tidegate_core::{Limit, Micros};

use super::{Oracle, TokenBucket};

/// A leaky bucket, as meter or as queue.
#[derive(Clone)]
pub struct LeakyBucket {
    limit: Limit,
    room: TokenBucket,
}

impl LeakyBucket {
    /// Creates an empty bucket.
    pub fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), room: TokenBucket::new(limit) }
    }
}

impl Oracle for LeakyBucket {
    fn fork(&self) -> Box<dyn Oracle> {
        Box::new(self.clone())
    }

    fn fits(&self, cost: u64, at: Micros, hold: bool) -> bool {
        let needs_empty_bucket = self.limit.queues() && !hold && cost > 0;
        self.room.fits(cost, at, hold) && (!needs_empty_bucket || self.room.untouched(at))
    }

    fn untouched(&self, at: Micros) -> bool {
        self.room.untouched(at)
    }

    fn take(&mut self, cost: u64, now: Micros) {
        self.room.take(cost, now);
    }

    fn give_back(&mut self, cost: u64, now: Micros) {
        self.room.give_back(cost, now);
    }

    fn discard_future(&mut self, now: Micros) {
        self.room.discard_future(now);
    }

    fn relimit(&mut self, limit: &Limit, now: Micros) {
        self.limit = limit.clone();
        self.room.relimit(limit, now);
    }

    fn carry_on(&mut self, now: Micros) {
        self.room.carry_on(now);
    }

    fn queues(&self) -> bool {
        self.limit.queues()
    }
}
