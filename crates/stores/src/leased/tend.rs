//! Renews leases and returns units, ahead of need or after use.

use futures_util::future::join_all;
use tidegate_core::lease;

use super::LeasedStore;
use super::cells::{Due, Errand};
use crate::Store;
use crate::charge::{Charge, Correction};

/// How many times one call of [`LeasedStore::tend`] looks for pending calls: those it finds first, the returns that
/// renewals lead to, and those scheduled in the meantime.
const ROUNDS: usize = 3;

impl<S: Store> LeasedStore<S> {
    /// Makes the pending calls that take or return units, all at once, and waits until they are done.
    pub async fn tend(&self) {
        for _ in 0..ROUNDS {
            let due = self.cells.take_due();
            if due.is_empty() {
                return;
            }
            join_all(due.into_iter().map(|due| self.call(due))).await;
        }
    }

    /// Gives up units whose time is over, and drops keys that are no longer used. The next [`LeasedStore::tend`]
    /// returns the units. Call it every tenth of a second.
    pub fn sweep(&self) {
        self.cells.sweep(self.now());
    }

    async fn call(&self, due: Due) {
        match due.errand {
            Errand::Take(units) => self.take(&due, units).await,
            Errand::Return(rest) => {
                let Due { key, partition, ref terms, .. } = due;
                let charge = Charge { partition, ..Charge::new(key, terms.shared(), rest.units) };
                // Sent only once: a lost call leaves the units counted as used, but a repeated one would refund them
                // twice.
                self.counts.returned(rest.units);
                self.shared.correct(&[(charge, Correction::GiveBack(rest.taken))]).await;
            }
        }
    }

    async fn take(&self, due: &Due, units: u64) {
        let Due { key, partition, ref terms, .. } = *due;
        let sent = self.now();
        let charge = Charge { partition, ..Charge::new(key, terms.shared(), units) };
        let grant = self.shared.take_up_to(&charge).await;
        let mut shard = self.cells.shard(key);
        // The limit may have changed since, or the lease was recalled.
        let cell = shard.get_mut(key).filter(|cell| cell.terms == *terms);
        let Ok(grant) = grant else {
            if let Some(cell) = cell {
                cell.lease.renewal_failed();
            }
            return;
        };
        self.counts.granted(grant.units);
        let (units, verdict, at) = (grant.units, grant.verdict, grant.at);
        let grant = lease::Grant { units, verdict, at, sent };
        let rest = match cell {
            Some(cell) => cell.lease.grant(terms, &grant, self.clock.now()),
            None => grant.rest(),
        };
        if let Some(rest) = rest {
            shard.give_back(key, partition, terms, rest);
        }
    }
}

#[cfg(feature = "redis")]
pub(super) use self::with_runtime::Signal;

#[cfg(feature = "redis")]
mod with_runtime {
    use std::sync::Weak;
    use std::time::Duration;

    use super::LeasedStore;
    use crate::Store;

    /// How often expired leases are looked for.
    const SWEEP_EVERY: Duration = Duration::from_millis(100);

    /// Wakes the loop that makes calls.
    #[derive(Default)]
    pub(in crate::leased) struct Signal(tokio::sync::Notify);

    impl Signal {
        pub(in crate::leased) fn notify(&self) {
            self.0.notify_one();
        }
    }

    impl<S: Store> LeasedStore<S> {
        /// Renews leases as they are used and returns leftover units, until the store is dropped. Must run in a tokio
        /// runtime, on its own task.
        pub async fn keep_tending(store: Weak<Self>) {
            let mut ticks = tokio::time::interval(SWEEP_EVERY);
            loop {
                let Some(store) = store.upgrade() else { return };
                tokio::select! {
                    () = store.tending.0.notified() => {}
                    _ = ticks.tick() => store.sweep(),
                }
                store.tend().await;
            }
        }
    }
}

/// Without a runtime there is no loop to wake: the owner calls [`LeasedStore::tend`].
#[cfg(not(feature = "redis"))]
#[derive(Default)]
pub(super) struct Signal;

#[cfg(not(feature = "redis"))]
impl Signal {
    #[expect(clippy::unused_self, reason = "the other one has something to wake")]
    pub(super) fn notify(&self) {}
}
