//! The memory store: the counters of one process, shared by many threads.
//!
//! Keys are distributed over shards by one half of their fingerprint, and each shard has its own lock. Within a
//! shard, cells of 32 bytes are stored in small pages; [`page`] explains why.
//!
//! - [`cell`]: one key's counter in four words
//! - [`page`]: a table of at most 256 cells, the unit of bounded work
//! - [`shard`]: pages under one lock
//! - [`counter`]: charges a cell
//! - [`settle`]: settles charges, all or nothing
//! - [`grant`]: takes as much of a charge as fits
//! - [`correct`]: corrects charges whose cost was an estimate
//! - [`snapshot`]: writes counters to disk, and restores them

mod cell;
mod correct;
mod counter;
mod grant;
mod page;
mod settle;
mod shard;
mod snapshot;

use std::any::Any;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use tidegate_core::{Clock, Key, KeySeed, Micros};

use self::cell::CellKey;
use self::page::PAGE_CELLS;
use self::shard::Shard;
pub use self::snapshot::{SnapshotError, SnapshotSummary};
use crate::charge::{Charge, Corrected, Correction, Grant, Intent, Timed, Verdicts};
use crate::sync::Mutex;
use crate::{Store, StoreError, SystemClock};

/// The most cells that any step touches while it holds a lock, however many keys there are.
pub const STEP_CELLS: usize = 4 * PAGE_CELLS;

const MAX_SHARDS: usize = 256;

/// The settings of a memory store.
#[derive(Clone)]
pub struct MemoryStoreConfig {
    /// Maximum number of keys. When the store is full, a new key evicts one of its neighbours: an expired one, else
    /// the one that has used the least of its limit.
    pub max_keys: usize,
    /// The clock that decisions use.
    pub clock: Arc<dyn Clock>,
    /// The secret seed of the key fingerprints. Charged keys must be built with the same seed.
    pub seed: KeySeed,
}

impl MemoryStoreConfig {
    /// Returns the default settings: ten million keys, system time, and a random seed.
    pub fn new() -> Self {
        Self { max_keys: 10_000_000, clock: Arc::new(SystemClock::new()), seed: random_seed() }
    }
}

impl Default for MemoryStoreConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a random seed. The standard library seeds its hash maps from the system's entropy, and this uses the same.
fn random_seed() -> KeySeed {
    use std::hash::{BuildHasher, RandomState};
    KeySeed(RandomState::new().hash_one("tidegate"))
}

/// A store of counters in memory. Share it by reference or in an [`Arc`].
pub struct MemoryStore {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// The index of a key's shard is its `home`, shifted right by one and then by this.
    shard_shift: u32,
    clock: StoreClock,
    seed: KeySeed,
    /// Held while a snapshot is written, because only one may be at a time.
    snapshotting: Mutex<()>,
}

/// The clock of a store. Nearly always it is the system clock, which is then called without dynamic dispatch.
enum StoreClock {
    System(Arc<SystemClock>),
    Other(Arc<dyn Clock>),
}

impl StoreClock {
    fn new(clock: Arc<dyn Clock>) -> Self {
        match (Arc::clone(&clock) as Arc<dyn Any + Send + Sync>).downcast() {
            Ok(system) => Self::System(system),
            Err(_) => Self::Other(clock),
        }
    }
}

/// Statistics of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// The number of keys, including expired ones that have not been swept yet.
    pub keys: usize,
    /// The number of live keys that were evicted because the store was full.
    pub evicted: u64,
    /// The most cells that one step has touched; at most [`STEP_CELLS`].
    pub longest_step: usize,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(config: MemoryStoreConfig) -> Self {
        let max_keys = config.max_keys.max(1);
        // A shard has room for at least one page, so that a full one has neighbours to choose from.
        let wanted = (max_keys / PAGE_CELLS).clamp(1, MAX_SHARDS);
        let count = 1_usize << wanted.ilog2();
        let shards = (0..count).map(|number| {
            let share = max_keys / count + usize::from(number < max_keys % count);
            CachePadded::new(Mutex::new(Shard::new(share)))
        });
        // Shifting by 64 is not defined, so one bit is shifted first.
        let shard_shift = 63 - count.ilog2();
        let (shards, clock) = (shards.collect(), StoreClock::new(config.clock));
        Self { shards, shard_shift, clock, seed: config.seed, snapshotting: Mutex::new(()) }
    }

    /// Returns the seed that keys must be built with.
    pub fn seed(&self) -> KeySeed {
        self.seed
    }

    /// Returns the time by the store's clock.
    #[inline]
    pub fn now(&self) -> Micros {
        match &self.clock {
            StoreClock::System(clock) => clock.now(),
            StoreClock::Other(clock) => clock.now(),
        }
    }

    /// Returns the index of a key's shard: the leading bits of `home`, of which a cell keeps enough.
    #[inline]
    fn shard_number(&self, key: Key) -> usize {
        shard_number(key, self.shard_shift)
    }

    #[inline]
    fn shard_of(&self, key: Key) -> &Mutex<Shard> {
        &self.shards[self.shard_number(key)]
    }

    /// Returns the shard of a key, given the bits of it that a cell keeps.
    #[inline]
    fn shard(&self, key: CellKey) -> &Mutex<Shard> {
        &self.shards[(key.leading_home() >> 1 >> self.shard_shift) as usize]
    }

    /// Returns the statistics of the store.
    pub fn stats(&self) -> MemoryStats {
        let mut stats = MemoryStats::default();
        for shard in &self.shards {
            let shard = shard.lock();
            stats.keys += shard.len();
            stats.evicted += shard.evicted;
            stats.longest_step = stats.longest_step.max(shard.longest_step);
        }
        stats
    }

    /// Drops expired keys in the next page of every shard, holding one lock at a time for one page. Returns whether
    /// any shard has pages left in this round.
    pub fn sweep_step(&self) -> bool {
        let mut more = false;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let now = self.now();
            more |= shard.sweep_step(now);
        }
        if !more {
            self.shards.iter().for_each(|shard| shard.lock().swept_to = Some(0));
        }
        more
    }

    /// Drops every expired key, page by page.
    pub fn sweep(&self) {
        for shard in &self.shards {
            shard.lock().swept_to = Some(0);
            while {
                let mut shard = shard.lock();
                let now = self.now();
                shard.sweep_step(now)
            } {}
            shard.lock().swept_to = Some(0);
        }
    }
}

/// Returns the index of a key's shard, for a store with this [`MemoryStore::shard_shift`].
#[inline]
fn shard_number(key: Key, shard_shift: u32) -> usize {
    // Shifting by 64 is not defined, so one bit is shifted first.
    (key.home >> 1 >> shard_shift) as usize
}

/// Operations of the memory store never fail.
impl Store for MemoryStore {
    async fn settle(&self, charges: &[Charge<'_>], intent: Intent) -> Result<Verdicts, StoreError> {
        let mut verdicts = Verdicts::new();
        self.settle_now(charges, intent, &mut verdicts);
        Ok(verdicts)
    }

    async fn settle_timed(&self, charges: &[Charge<'_>]) -> Result<Timed, StoreError> {
        Ok(self.settle_timed_now(charges, Intent::Take))
    }

    async fn take_up_to(&self, charge: &Charge<'_>) -> Result<Grant, StoreError> {
        self.take_up_to_now(charge)
    }

    async fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> Corrected {
        self.correct_now(corrections).into_iter().map(Ok).collect()
    }

    async fn give_back(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.give_back_now(charges);
        Ok(())
    }

    async fn renew(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        Ok(self.renew_now(slot))
    }

    async fn release(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        Ok(self.release_now(slot))
    }
}
