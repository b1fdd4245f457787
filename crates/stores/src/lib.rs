//! Stores, which hold the counters of limits.
//!
//! [`Store`] defines what a store does; above all it settles the charges of one request, all or nothing. The
//! [`memory`] store does so in one process, on many threads; the `redis` store does so for many nodes.
//!
//! # Layout
//!
//! - [`charge`]: charges and verdicts, and how verdicts combine to all or nothing
//! - [`error`]: the errors of stores
//! - [`leased`]: units of a shared store, spent locally
//! - [`memory`]: the embedded store
//! - `redis`: the store that many nodes share (feature `redis`)
//! - [`system_clock`]: wall time that never runs backwards
//! - `sync`: locks, which a model checker can replace

mod arc;
pub mod charge;
pub mod error;
pub mod leased;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
mod sync;
pub mod system_clock;

use std::future::Future;

pub use charge::{
    Charge, Corrected, Correction, Force, Grant, Intent, Settlement, Timed, VerdictSink, Verdicts, blocked,
    blocked_by,
};
pub use error::StoreError;
pub use leased::{LeaseConfig, LeasedStore};
pub use memory::{MemoryStore, MemoryStoreConfig};
pub use system_clock::SystemClock;

/// A store of counters.
pub trait Store: Send + Sync + 'static {
    /// Takes every charge or none, and returns one verdict per charge, in order. With [`Intent::Look`] it takes none,
    /// and the verdicts show what would happen.
    fn settle(
        &self,
        charges: &[Charge<'_>],
        intent: Intent,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send;

    /// Takes every charge or none, like [`Store::settle`], and also returns when each was settled.
    fn settle_timed(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Timed, StoreError>> + Send;

    /// Takes as many units of a charge's cost as fit, at most all of them. Ignores the charge's `force` and
    /// `count_denied`.
    ///
    /// # Errors
    /// Returns [`StoreError::Indivisible`] for slots and queues, which cannot be taken in part.
    fn take_up_to(&self, charge: &Charge<'_>) -> impl Future<Output = Result<Grant, StoreError>> + Send;

    /// Corrects charges that were taken before, each on its own, and returns the verdict of a peek at each limit
    /// afterwards. The cost of a charge is the difference from what was taken.
    fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> impl Future<Output = Corrected> + Send;

    /// Refunds the cost of each charge to its limit, never above full.
    fn give_back(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Restarts the timeout of a held slot. Returns false if the slot is no longer held.
    fn renew(&self, slot: &Charge<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Releases a held slot. Returns false if the slot is no longer held.
    fn release(&self, slot: &Charge<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;
}
