//! Where counters live.
//!
//! A store promises one thing: it settles the charges of one request, all or nothing. The
//! [`memory`] store does so in one process, on many threads; the `redis` store for many nodes at once.
//!
//! # Layout
//!
//! - [`charge`]: what is handed to a store, and the rule that folds verdicts into all or nothing
//! - [`error`]: why a store did not settle
//! - [`memory`]: the embedded store
//! - `redis`: the store that many nodes share (feature `redis`)
//! - [`system_clock`]: wall time that never runs backwards
//! - `sync`: the locks, exchangeable for those of a model checker

pub mod charge;
pub mod error;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
mod sync;
pub mod system_clock;

use std::future::Future;

pub use charge::{Charge, Corrected, Correction, Force, Intent, Timed, Verdicts, blocked};
pub use error::StoreError;
pub use memory::{MemoryStore, MemoryStoreConfig};
pub use system_clock::SystemClock;

/// Where counter state lives.
pub trait Store: Send + Sync + 'static {
    /// Takes every charge or none; one verdict per charge, in order. With [`Intent::Look`] it takes
    /// none and answers what would happen.
    fn settle(
        &self,
        charges: &[Charge<'_>],
        intent: Intent,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send;

    /// As [`Store::settle`] to take, and says when it was.
    fn settle_timed(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Timed, StoreError>> + Send;

    /// Corrects charges that were taken before, each for itself, and answers what each limit says then to
    /// a cost of 0. A charge's cost is by how much it is wrong.
    fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> impl Future<Output = Corrected> + Send;

    /// Gives each charge's cost back to its limit, never above full.
    fn give_back(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Starts the time-out of a held slot anew; false if it has returned already.
    fn renew(&self, slot: &Charge<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns a held slot; false if it has returned already.
    fn release(&self, slot: &Charge<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;
}
