//! The stores the conformance suite is stamped over.

use std::sync::Arc;

use tidegate_core::{Clock, Key, KeySeed, Micros, VirtualClock};
use tidegate_stores::{MemoryStore, MemoryStoreConfig};

use crate::conformance::World;

pub(crate) const SEED: KeySeed = KeySeed(0x7469_6465_6761_7465);

/// A memory store of that size.
pub(crate) fn store(max_keys: usize, clock: &VirtualClock) -> MemoryStore {
    MemoryStore::new(config(max_keys, clock))
}

pub(crate) fn config(max_keys: usize, clock: &VirtualClock) -> MemoryStoreConfig {
    MemoryStoreConfig { max_keys, clock: Arc::new(clock.clone()), seed: SEED }
}

/// The counter of that name and number.
pub(crate) fn key(name: &str, number: usize) -> Key {
    SEED.text(name).then(SEED.text(&number.to_string()))
}

/// The bytes of a snapshot, as they come to lie on disk.
pub(crate) fn snapshot_of(store: &MemoryStore) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot");
    store.snapshot(&path).expect("a snapshot");
    std::fs::read(&path).expect("its bytes")
}

pub(crate) struct MemoryWorld {
    clock: VirtualClock,
    store: MemoryStore,
    upheavals: usize,
}

impl MemoryWorld {
    pub(crate) fn new() -> Self {
        let clock = VirtualClock::new();
        // Windows begin at whole periods since the epoch, and this is not the beginning of one.
        clock.advance_us(3_141_592);
        Self { store: store(100_000, &clock), clock, upheavals: 0 }
    }
}

impl World for MemoryWorld {
    type Store = MemoryStore;

    fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn now(&self) -> Micros {
        self.clock.now()
    }

    fn set_now(&self, now: Micros) {
        self.clock.set(now);
    }

    fn key(&self, home: &str, name: &str) -> Key {
        SEED.text(home).of_limit(SEED.texts([home, name]).mark)
    }

    /// Is swept, in one go or in steps, or goes through a snapshot into a store of another size.
    fn upheaval(&mut self) {
        self.upheavals += 1;
        match self.upheavals % 3 {
            0 => self.store.sweep(),
            1 => while self.store.sweep_step() {},
            _ => {
                let sizes = [1_000, 100_000, 10_000, 3_000];
                let size = sizes[self.upheavals / 3 % sizes.len()];
                let bytes = snapshot_of(&self.store);
                let restored = MemoryStore::restore_bytes(&bytes, config(size, &self.clock));
                self.store = restored.expect("our own snapshot").0;
            }
        }
    }
}
