//! The laws of the stores.
//!
//! - [`conformance`]: what every store must do, stamped over each of them
//! - [`world`]: the stores it is stamped over, each with its time in hand
//! - [`model`], [`agreement`]: random schedules, decision by decision beside a plain map of states
//! - [`vectors`]: the golden vectors of every algorithm
//! - [`short_paths`]: the short ways of settling beside the long one
//! - [`threads`]: many threads on few keys
//! - [`adversary`]: a flood that tries to have keys at their limits forgotten
//! - [`bound`], [`steps`]: how many keys are held, which are forgotten, and how long one step takes
//! - [`snapshot`]: to disk and back, and what is refused
//! - `redis`: what only the store of many nodes does
//! - [`leases`]: units of a shared store that nodes spend on their own
//! - [`allocation`]: what a decision costs the heap

// Locks of the model checker only work inside it; see `interleavings`.
#![cfg(not(feature = "shuttle"))]

mod adversary;
mod agreement;
mod allocation;
mod bound;
#[macro_use]
mod conformance;
mod leases;
mod limits;
mod model;
#[cfg(feature = "redis")]
mod redis;
mod short_paths;
mod snapshot;
mod steps;
mod threads;
mod vectors;
mod world;

conformance!(memory, crate::world::MemoryWorld::new);
conformance!(leased, crate::leases::LeasedWorld::new);
#[cfg(feature = "redis")]
mod on_servers {
    conformance!(redis_single, crate::redis::world::RedisWorld::single);
    conformance!(redis_sentinel, crate::redis::world::RedisWorld::sentinel);
    conformance!(redis_cluster, crate::redis::world::RedisWorld::cluster);
    conformance!(redis_sharded, crate::redis::world::RedisWorld::sharded);
    conformance!(valkey, crate::redis::world::RedisWorld::valkey);
}
