//! A short-lived cache of denials, so that a client that keeps retrying causes no load on the servers.
//!
//! A denial is cached for at most a second, and never past the moment the counter has room again. A request is denied
//! from the cache if the same counters were denied before, for at most the same costs.

use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use quanta::Instant;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tidegate_core::{Key, Outcome, Verdict};

use super::routes::partition_of;
use crate::charge::{Charge, Force, Verdicts};

const SHARDS: usize = 16;
/// Maximum number of denials in one shard. When it is exceeded, the shard is cleared.
const MAX_DENIALS: usize = 4096;

/// The cache of recent denials.
pub(super) struct Denials {
    /// The longest time a denial is cached; zero disables the cache.
    longest: Duration,
    shards: [Mutex<HashMap<Key, Denial, RandomState>>; SHARDS],
    count: AtomicUsize,
}

struct Denial {
    /// The counters of the whole request.
    request: Key,
    costs: SmallVec<[u64; 4]>,
    verdicts: Verdicts,
    at: Instant,
    until: Instant,
}

impl Denials {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, shards: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }

    /// Returns the verdicts of a request that was denied recently and would still be denied.
    pub(super) fn recall(&self, charges: &[Charge<'_>]) -> Option<Verdicts> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let request = request_of(charges);
        charges.iter().filter(|charge| denies(charge)).find_map(|charge| {
            let mut shard = self.shard(charge.key).lock();
            let denial = shard.get(&charge.key)?;
            let now = Instant::now();
            if denial.until <= now {
                shard.remove(&charge.key);
                self.count.fetch_sub(1, Relaxed);
                return None;
            }
            let as_much = charges.iter().zip(&denial.costs).all(|(charge, cost)| charge.cost >= *cost);
            let passed_us = now.duration_since(denial.at).as_micros() as u64;
            let later = |verdict: &Verdict| later(verdict, passed_us);
            (denial.request == request && as_much).then(|| denial.verdicts.iter().map(later).collect())
        })
    }

    /// Caches a denied request under the counter that denies it for longest.
    pub(super) fn remember(&self, charges: &[Charge<'_>], verdicts: &Verdicts) {
        // Charges that are counted even if denied must reach the server.
        if self.longest.is_zero() || charges.iter().any(|charge| charge.count_denied) {
            return;
        }
        let retry = |(charge, verdict): (&Charge<'_>, &Verdict)| {
            denies(charge).then(|| verdict.retry_after_us()).flatten().map(|retry_us| (retry_us, charge.key))
        };
        let Some((retry_us, key)) =
            charges.iter().zip(verdicts).filter_map(retry).max_by_key(|found| found.0)
        else {
            return;
        };
        let at = Instant::now();
        let denial = Denial {
            request: request_of(charges),
            costs: charges.iter().map(|charge| charge.cost).collect(),
            verdicts: verdicts.clone(),
            at,
            until: at + self.longest.min(Duration::from_micros(retry_us)),
        };
        let mut shard = self.shard(key).lock();
        if shard.len() >= MAX_DENIALS {
            self.count.fetch_sub(shard.len(), Relaxed);
            shard.clear();
        }
        if shard.insert(key, denial).is_none() {
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Drops the denials of these counters, because units were refunded to them.
    pub(super) fn forget(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            if self.shard(charge.key).lock().remove(&charge.key).is_some() {
                self.count.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Drops all denials, because the rules have changed.
    pub(super) fn forget_all(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            self.count.fetch_sub(shard.len(), Relaxed);
            shard.clear();
        }
    }

    fn shard(&self, key: Key) -> &Mutex<HashMap<Key, Denial, RandomState>> {
        &self.shards[partition_of(key.home, SHARDS as u32) as usize]
    }
}

/// Returns whether a denial of this charge alone denies its request.
fn denies(charge: &Charge<'_>) -> bool {
    charge.force == Force::Enforced && !charge.count_denied && charge.cost > 0
}

fn request_of(charges: &[Charge<'_>]) -> Key {
    charges.iter().fold(Key::NONE, |request, charge| request.then(charge.key))
}

/// Returns a verdict as it is `passed_us` later, if nothing was charged since.
fn later(verdict: &Verdict, passed_us: u64) -> Verdict {
    let outcome = match verdict.outcome {
        Outcome::Denied { retry_after_us } if retry_after_us != tidegate_core::NEVER_US => {
            // Never 0: the denial is dropped once there is room.
            Outcome::Denied { retry_after_us: retry_after_us.saturating_sub(passed_us).max(1) }
        }
        other => other,
    };
    Verdict { outcome, reset_after_us: verdict.reset_after_us.saturating_sub(passed_us), ..*verdict }
}
