//! Batches of requests that are sent to a server together.

use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tidegate_core::{Key, Limit, MAX_COUNT, Micros};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::routes::partition_of;
use super::script::Kind;
use crate::charge::{Charge, Correction, Force, Grant, Intent, Verdicts};
use crate::error::StoreError;

/// Maximum number of counters in a batch; further ones go into the next.
const MAX_COUNTERS: usize = 512;

/// One charge to a counter of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchCharge {
    pub(super) counter: u32,
    pub(super) cost: u64,
    pub(super) force: Force,
    pub(super) hold: bool,
    pub(super) count_denied: bool,
    pub(super) lease: u64,
}

/// What to do with the charges of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Take all charges or none.
    Settle(Intent),
    /// Settle some charges of a request whose other charges are settled elsewhere.
    SettleSome(Intent),
    /// Take as much of the only charge as fits.
    TakeUpTo,
    /// Refund the charges, to the window they were taken in if that is known.
    GiveBack { taken_at: Option<Micros> },
    /// Correct each charge.
    Correct(Correction),
    /// Restart the timeout of a slot.
    Renew,
    /// Release a slot.
    Release,
}

/// The result of an [`Operation`].
#[derive(Clone, Debug)]
pub(super) enum Completion {
    /// Of [`Operation::Settle`] and [`Operation::Correct`].
    Settled(Verdicts),
    /// Of [`Operation::SettleSome`]. Boxed because the others are much smaller.
    SettledSome(Box<PartialSettlement>),
    /// Of [`Operation::TakeUpTo`].
    Granted(Grant),
    /// Of [`Operation::Renew`] and [`Operation::Release`]: whether the slot was held.
    Slot(bool),
    /// Of [`Operation::GiveBack`].
    GivenBack,
}

/// The result of settling some of a request's charges.
#[derive(Clone, Debug)]
pub(super) struct PartialSettlement {
    pub(super) verdicts: Verdicts,
    /// The verdicts of each limit on a cost of 0 before the charges were settled.
    pub(super) before: Verdicts,
    /// When they were settled, by the server's time.
    pub(super) now: Micros,
}

/// Receives the result of a request.
pub(super) type Waiter = oneshot::Sender<Result<Completion, StoreError>>;

/// A request of the batch.
pub(super) struct BatchRequest {
    pub(super) operation: Operation,
    charges: Range<u32>,
    arrived: Instant,
    waiter: Option<Waiter>,
}

impl BatchRequest {
    /// Returns whether the script charges this request, in the order of arrival.
    pub(super) fn takes(&self) -> bool {
        matches!(
            self.operation,
            Operation::Settle(Intent::Take) | Operation::SettleSome(Intent::Take) | Operation::TakeUpTo
        )
    }

    pub(super) fn finish(&mut self, result: Result<Completion, StoreError>) {
        if let Some(waiter) = self.waiter.take() {
            // A caller that has gone away does not need the result.
            let _ = waiter.send(result);
        }
    }
}

/// A counter of the batch, and its location.
pub(super) struct Counter {
    pub(super) key: Key,
    pub(super) partition: u32,
    /// Index of its limit.
    pub(super) limit: u32,
    /// Units that the batch charges to it. [`BOUNDLESS`] if they cannot all fit.
    pub(super) demand: u64,
    /// The most units that this batch may ask of the counter, including charges that are only assessed.
    pub(super) most_asked: u64,
}

/// A demand that no counter has room for. The Lua host reads numbers from 2^63 on as negative.
const BOUNDLESS: u64 = 1 << 60;

/// A limit of the batch.
pub(super) struct BatchLimit {
    pub(super) limit: Limit,
    pub(super) kind: Kind,
    /// Index of the first limit of the same kind and window: their counters share hashes.
    pub(super) family: u32,
}

/// Requests and their counters, each counter once.
pub(super) struct Batch {
    partitions: u32,
    pub(super) limits: Vec<BatchLimit>,
    pub(super) counters: Vec<Counter>,
    by_key: HashMap<Key, u32, RandomState>,
    charges: Vec<BatchCharge>,
    pub(super) requests: Vec<BatchRequest>,
}

impl Batch {
    pub(super) fn new(partitions: u32) -> Self {
        Self {
            partitions,
            limits: Vec::new(),
            counters: Vec::new(),
            by_key: HashMap::default(),
            charges: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Adds a request, if it can be combined with those in the batch. Otherwise returns the waiter: the request
    /// belongs in the next batch.
    pub(super) fn push(
        &mut self,
        charges: &[Charge<'_>],
        operation: Operation,
        arrived: Instant,
        waiter: Option<Waiter>,
    ) -> Result<(), Option<Waiter>> {
        let is_first = self.requests.is_empty();
        let is_full = self.counters.len() + charges.len() > MAX_COUNTERS;
        if !is_first && (is_full || charges.iter().any(|charge| self.conflicts(charge))) {
            return Err(waiter);
        }
        let first = self.charges.len() as u32;
        let request =
            BatchRequest { operation, charges: first..first + charges.len() as u32, arrived, waiter };
        for charge in charges {
            let number = self.counter(charge);
            let counter = &mut self.counters[number as usize];
            let can_fit = charge.cost <= charge.limit.burst();
            if can_fit {
                // A charge that is taken even if denied is assessed once more afterwards, to compute when it would
                // fit.
                let asked = if charge.count_denied { 2 * charge.cost } else { charge.cost };
                counter.most_asked = counter.most_asked.saturating_add(asked).min(MAX_COUNT);
            }
            if request.takes() {
                let demand = counter.demand.saturating_add(charge.cost);
                counter.demand = if can_fit && demand <= MAX_COUNT { demand } else { BOUNDLESS };
            }
            let Charge { cost, force, hold, count_denied, lease, .. } = *charge;
            self.charges.push(BatchCharge { counter: number, cost, force, hold, count_denied, lease });
        }
        self.requests.push(request);
        Ok(())
    }

    /// Returns whether the batch has the same counter with a different limit, as when rules change. The script checks
    /// a counter against one limit at a time.
    fn conflicts(&self, charge: &Charge<'_>) -> bool {
        let known = self.by_key.get(&charge.key).map(|counter| &self.counters[*counter as usize]);
        known.is_some_and(|counter| self.limit(counter) != charge.limit)
    }

    /// Returns the index of a charge's counter, which is added if it is new.
    fn counter(&mut self, charge: &Charge<'_>) -> u32 {
        if let Some(counter) = self.by_key.get(&charge.key) {
            return *counter;
        }
        let limit = self.limit_index(charge.limit);
        let counter = self.counters.len() as u32;
        let partition = partition_of(charge.partition, self.partitions);
        self.counters.push(Counter { key: charge.key, partition, limit, demand: 0, most_asked: 0 });
        self.by_key.insert(charge.key, counter);
        counter
    }

    fn limit_index(&mut self, limit: &Limit) -> u32 {
        if let Some(known) = self.limits.iter().position(|known| known.limit == *limit) {
            return known as u32;
        }
        let kind = Kind::of(limit.algorithm());
        let is_relative = |known: &BatchLimit| known.kind == kind && known.limit.window() == limit.window();
        let index = self.limits.len() as u32;
        let family = self.limits.iter().position(is_relative).map_or(index, |first| first as u32);
        self.limits.push(BatchLimit { limit: limit.clone(), kind, family });
        index
    }

    pub(super) fn limit(&self, counter: &Counter) -> &Limit {
        &self.limits[counter.limit as usize].limit
    }

    pub(super) fn kind(&self, counter: &Counter) -> Kind {
        self.limits[counter.limit as usize].kind
    }

    pub(super) fn charges_of(&self, request: &BatchRequest) -> &[BatchCharge] {
        &self.charges[request.charges.start as usize..request.charges.end as usize]
    }

    /// Returns the arrival time of the oldest request.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.requests.first().map(|request| request.arrived)
    }

    /// Fails every request.
    pub(super) fn fail(self, error: &StoreError) {
        for mut request in self.requests {
            request.finish(Err(error.clone()));
        }
    }
}
