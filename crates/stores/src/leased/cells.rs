//! The leases of a node, in shards by key.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::lease::{Lease, Rest, Terms};
use tidegate_core::{Key, Micros};

use crate::charge::Charge;
use crate::sync::{Mutex, MutexGuard};

const MAX_SHARDS: usize = 64;
/// Minimum number of keys per shard, so that a small store has few shards.
const MIN_SHARD_KEYS: usize = 256;

/// The lease of one key.
pub(super) struct Cell {
    pub(super) lease: Lease,
    pub(super) terms: Arc<Terms>,
    /// The partition of the counter in the shared store.
    partition: u64,
}

/// A pending call, which takes or returns units.
pub(super) struct Due {
    pub(super) key: Key,
    pub(super) partition: u64,
    pub(super) terms: Arc<Terms>,
    pub(super) errand: Errand,
}

/// The purpose of a pending call.
#[derive(Clone, Copy)]
pub(super) enum Errand {
    Take(u64),
    Return(Rest),
}

/// A hasher for keys. A key is a fingerprint already, so it is its own hash.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.rotate_left(32) ^ word;
    }
}

/// The leases of the keys of one shard.
#[derive(Default)]
pub(super) struct Shard {
    cells: HashMap<Key, Cell, BuildHasherDefault<KeyHasher>>,
    due: Vec<Due>,
    max_keys: usize,
}

/// The leases of all keys.
pub(super) struct Cells {
    shards: Box<[Mutex<Shard>]>,
}

impl Cells {
    pub(super) fn new(max_keys: usize) -> Self {
        let count = (max_keys / MIN_SHARD_KEYS).clamp(1, MAX_SHARDS);
        let shard = |_| Mutex::new(Shard { max_keys: max_keys.div_ceil(count), ..Shard::default() });
        Self { shards: (0..count).map(shard).collect() }
    }

    pub(super) fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        self.shards[(key.home >> 32) as usize % self.shards.len()].lock()
    }

    pub(super) fn held(&self) -> u64 {
        self.sum(|shard| {
            let due = shard
                .due
                .iter()
                .map(|due| if let Errand::Return(rest) = due.errand { rest.units } else { 0 });
            shard.cells.values().map(|cell| cell.lease.units()).chain(due).sum()
        })
    }

    pub(super) fn len(&self) -> usize {
        self.sum(|shard| shard.cells.len() as u64) as usize
    }

    fn sum(&self, of: impl Fn(&Shard) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(&shard.lock())).sum()
    }

    /// Marks the units of all leases to be returned.
    pub(super) fn recall_all(&self) {
        for shard in &self.shards {
            shard.lock().give_up(|_| true);
        }
    }

    /// Gives up units whose lease has expired, and drops the leases of keys that are no longer used.
    pub(super) fn sweep(&self, now: Micros) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.give_up(|cell| !cell.lease.is_live(now));
            shard.cells.retain(|_, cell| !cell.lease.is_idle(now));
        }
    }

    /// Removes and returns the pending calls.
    pub(super) fn take_due(&self) -> Vec<Due> {
        let mut due = Vec::new();
        for shard in &self.shards {
            due.append(&mut shard.lock().due);
        }
        due
    }
}

impl Shard {
    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Cell> {
        self.cells.get_mut(&key)
    }

    /// Returns the cell of a key, with these terms. A cell with other terms gives up its units first. Returns `None`
    /// if the shard is full.
    pub(super) fn get_or_insert(&mut self, charge: &Charge<'_>, terms: &Arc<Terms>) -> Option<&mut Cell> {
        let Charge { key, partition, .. } = *charge;
        if self.cells.get(&key).is_some_and(|cell| cell.terms != *terms) {
            self.recall(key);
        }
        if self.cells.len() >= self.max_keys && !self.cells.contains_key(&key) {
            return None;
        }
        let new = || Cell { lease: Lease::default(), terms: Arc::clone(terms), partition };
        Some(self.cells.entry(key).or_insert_with(new))
    }

    /// Schedules a call that takes units for the lease of a key.
    pub(super) fn renew(&mut self, key: Key, units: u64) {
        let Some(cell) = self.cells.get(&key) else { return };
        let Cell { partition, terms, .. } = cell;
        self.due.push(Due {
            key,
            partition: *partition,
            terms: Arc::clone(terms),
            errand: Errand::Take(units),
        });
    }

    /// Schedules a call that returns units.
    pub(super) fn give_back(&mut self, key: Key, partition: u64, terms: &Arc<Terms>, rest: Rest) {
        self.due.push(Due { key, partition, terms: Arc::clone(terms), errand: Errand::Return(rest) });
    }

    /// Gives up the units of a key and drops its lease. If a renewal is in progress, its units are returned when they
    /// arrive.
    pub(super) fn recall(&mut self, key: Key) {
        let Some(mut cell) = self.cells.remove(&key) else { return };
        if let Some(rest) = cell.lease.release() {
            self.give_back(key, cell.partition, &cell.terms, rest);
        }
    }

    fn give_up(&mut self, which: impl Fn(&Cell) -> bool) {
        let mut given_up = SmallVec::<[(Key, u64, Arc<Terms>, Rest); 4]>::new();
        for (key, cell) in self.cells.iter_mut().filter(|(_, cell)| which(cell)) {
            if let Some(rest) = cell.lease.release() {
                given_up.push((*key, cell.partition, Arc::clone(&cell.terms), rest));
            }
        }
        for (key, partition, terms, rest) in given_up {
            self.give_back(key, partition, &terms, rest);
        }
    }
}
