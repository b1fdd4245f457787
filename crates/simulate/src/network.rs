//! Calls between nodes and the shared store.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use tidegate_core::{Key, Limit, Micros, Verdict};
use tidegate_stores::{Charge, Corrected, Correction, Grant, Intent, Store, StoreError, Timed, Verdicts};

/// A charge that outlives its request.
#[derive(Clone, Debug)]
pub(crate) struct OwnedCharge {
    pub(crate) key: Key,
    pub(crate) limit: Limit,
    pub(crate) cost: u64,
}

impl OwnedCharge {
    fn of(charge: &Charge<'_>) -> Self {
        Self { key: charge.key, limit: charge.limit.clone(), cost: charge.cost }
    }
}

/// What a node asks of the store.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Settle(Vec<OwnedCharge>, Intent),
    TakeUpTo(OwnedCharge),
    Correct(Vec<(OwnedCharge, Correction)>),
}

/// A call under way to the store.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) node: usize,
    pub(crate) operation: Operation,
}

/// What the store replies.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Verdicts(Verdicts, Micros),
    Grant(Grant),
}

/// Calls that have not left yet, and replies that have arrived.
#[derive(Default)]
pub(crate) struct Wire {
    next_id: u64,
    pub(crate) outbox: Vec<Call>,
    pub(crate) inbox: BTreeMap<u64, Result<Reply, StoreError>>,
}

/// The shared store, as one node sees it.
#[derive(Clone)]
pub(crate) struct RemoteStore {
    pub(crate) node: usize,
    pub(crate) wire: Arc<Mutex<Wire>>,
}

impl RemoteStore {
    async fn call(&self, operation: Operation) -> Result<Reply, StoreError> {
        let id = {
            let mut wire = self.wire.lock();
            wire.next_id += 1;
            let call = Call { id: wire.next_id, node: self.node, operation };
            wire.outbox.push(call);
            wire.next_id
        };
        poll_fn(|_| self.wire.lock().inbox.remove(&id).map_or(Poll::Pending, Poll::Ready)).await
    }

    async fn verdicts(&self, operation: Operation) -> Result<(Verdicts, Micros), StoreError> {
        match self.call(operation).await? {
            Reply::Verdicts(verdicts, at) => Ok((verdicts, at)),
            Reply::Grant(_) => Err(StoreError::Garbled),
        }
    }
}

impl Store for RemoteStore {
    async fn settle(&self, charges: &[Charge<'_>], intent: Intent) -> Result<Verdicts, StoreError> {
        let charges = charges.iter().map(OwnedCharge::of).collect();
        Ok(self.verdicts(Operation::Settle(charges, intent)).await?.0)
    }

    async fn settle_timed(&self, charges: &[Charge<'_>]) -> Result<Timed, StoreError> {
        let owned = charges.iter().map(OwnedCharge::of).collect();
        let (verdicts, at) = self.verdicts(Operation::Settle(owned, Intent::Take)).await?;
        let at = verdicts.iter().map(|_| at).collect();
        Ok(Timed { verdicts, at })
    }

    async fn take_up_to(&self, charge: &Charge<'_>) -> Result<Grant, StoreError> {
        match self.call(Operation::TakeUpTo(OwnedCharge::of(charge))).await? {
            Reply::Grant(grant) => Ok(grant),
            Reply::Verdicts(..) => Err(StoreError::Garbled),
        }
    }

    async fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> Corrected {
        let owned = corrections.iter().map(|(charge, how)| (OwnedCharge::of(charge), *how)).collect();
        match self.verdicts(Operation::Correct(owned)).await {
            Ok((verdicts, _)) => verdicts.into_iter().map(Ok::<Verdict, _>).collect(),
            Err(error) => corrections.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Refunds are not simulated.
    async fn give_back(&self, _: &[Charge<'_>]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Slots are not simulated.
    async fn renew(&self, _: &Charge<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Slots are not simulated.
    async fn release(&self, _: &Charge<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }
}
