//! The leaky bucket. What is in it leaks out at `requests` per period, so the room left is the
//! tokens of a token bucket. A meter lets pass what there is room for. A queue lets pass what finds
//! the bucket empty, and holds what finds room in it until all before it has leaked out.

use tidegate_core::{Limit, Micros};

use super::{Oracle, TokenBucket};

/// See the module.
#[derive(Clone)]
pub struct LeakyBucket {
    limit: Limit,
    room: TokenBucket,
}

impl LeakyBucket {
    /// An empty bucket.
    pub fn new(limit: &Limit) -> Self {
        Self { limit: limit.clone(), room: TokenBucket::new(limit) }
    }
}

impl Oracle for LeakyBucket {
    fn fork(&self) -> Box<dyn Oracle> {
        Box::new(self.clone())
    }

    fn fits(&self, cost: u64, at: Micros, hold: bool) -> bool {
        let must_find_it_empty = self.limit.queues() && !hold && cost > 0;
        self.room.fits(cost, at, hold) && (!must_find_it_empty || self.room.untouched(at))
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

    fn see_from(&mut self, now: Micros) {
        self.room.see_from(now);
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
