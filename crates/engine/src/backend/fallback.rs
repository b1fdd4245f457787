//! Settles charges while the shared store fails. By the rule's `on_store_error` they are allowed, denied, or charged
//! in memory to this node's share of the limit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Limit, Micros, Outcome, Verdict};
use tidegate_stores::{Charge, Intent, MemoryStore, Timed, Verdicts, blocked};

use super::Fallback;
use super::shared::Shared;
use crate::plan::{Charges, Plan};
use crate::rules::model::{OnStoreError, StoreErrorStage};

/// The retry time, in microseconds, of a request that was denied without evaluating its limits.
const RETRY_US: u64 = 1_000_000;

/// The number of decisions made without the store.
#[derive(Debug, Default)]
pub(crate) struct FallbackCounts {
    pub(crate) let_pass: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) local: AtomicU64,
}

impl Shared {
    /// Settles each charge of a plan by its rule's `on_store_error`. Charges that are not evaluated get the time 0.
    pub(crate) fn fall_back(&self, memory: &MemoryStore, plan: &Plan<'_>, intent: Intent) -> Timed {
        let charges = &plan.charges;
        let failing: SmallVec<[Duration; 4]> =
            charges.iter().map(|charge| self.store.failing_for(charge)).collect();
        let stages: SmallVec<[StoreErrorStage; 4]> =
            (0..charges.len()).map(|index| stage(plan.on_store_error(index), failing[index])).collect();
        let mut verdicts: Verdicts =
            charges.iter().zip(&stages).map(|(charge, stage)| unseen(charge, *stage)).collect();
        let intent = if blocked(charges, &verdicts) { Intent::Look } else { intent };
        let at = self.settle_locally(memory, charges, &stages, &failing, intent, &mut verdicts);
        let at = stages.iter().map(|stage| if *stage == StoreErrorStage::Local { at } else { Micros(0) });
        let counts = &self.counts;
        let counter = if stages.contains(&StoreErrorStage::Deny) {
            &counts.denied
        } else if stages.contains(&StoreErrorStage::Local) {
            &counts.local
        } else {
            &counts.let_pass
        };
        counter.fetch_add(1, Relaxed);
        Timed { at: at.collect(), verdicts }
    }

    /// Settles the charges to this node's share in memory. Returns when that was.
    fn settle_locally(
        &self,
        memory: &MemoryStore,
        charges: &[Charge<'_>],
        stages: &[StoreErrorStage],
        failing: &[Duration],
        intent: Intent,
        verdicts: &mut Verdicts,
    ) -> Micros {
        let local = |number: &usize| stages[*number] == StoreErrorStage::Local;
        let numbers: SmallVec<[usize; 4]> = (0..charges.len()).filter(local).collect();
        let limits: Vec<_> =
            numbers.iter().map(|it| self.local_limit(charges[*it].limit, failing[*it])).collect();
        let mine: Charges<'_> =
            numbers.iter().zip(&limits).map(|(number, limit)| Charge { limit, ..charges[*number] }).collect();
        let mut settled = Verdicts::new();
        let at = memory.settle_now(&mine, intent, &mut settled).at;
        for (number, verdict) in numbers.iter().zip(settled) {
            verdicts[*number] = verdict;
        }
        at
    }

    /// Returns the part of a charge's limit that this node currently admits by itself.
    pub(crate) fn share_of(&self, charge: &Charge<'_>) -> Limit {
        self.local_limit(charge.limit, self.store.failing_for(charge))
    }

    /// Returns the part of a limit that this node admits by itself if the store has failed for `failing`.
    fn local_limit(&self, limit: &Limit, failing: Duration) -> Limit {
        let Fallback { share_percent, later_share_percent, tighten_after } = self.fallback;
        let percent = if failing < tighten_after { share_percent } else { later_share_percent };
        let share = |count: u64| {
            let share = u128::from(count) * u128::from(percent) / 100 / u128::from(self.store.nodes().max(1));
            (share as u64).max(u64::from(count > 0))
        };
        let algorithm = match limit.algorithm() {
            Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: share(burst) },
            Algorithm::LeakyBucket { burst, mode } => Algorithm::LeakyBucket { burst: share(burst), mode },
            other => other,
        };
        let scaled = Limit::new(algorithm, share(limit.requests()), limit.window().clone());
        // A share of a valid limit is valid, unless it would take years to drain. Then the whole limit is used.
        scaled.unwrap_or_else(|_| limit.clone())
    }
}

/// Returns the verdict on a charge that is not evaluated.
fn unseen(charge: &Charge<'_>, stage: StoreErrorStage) -> Verdict {
    let outcome = match stage {
        StoreErrorStage::Allow | StoreErrorStage::Local => Outcome::Allowed,
        StoreErrorStage::Deny if charge.cost == 0 => Outcome::Allowed,
        StoreErrorStage::Deny => Outcome::Denied { retry_after_us: RETRY_US },
    };
    let remaining = if stage == StoreErrorStage::Deny { 0 } else { charge.limit.burst() };
    Verdict { outcome, remaining, reset_after_us: 0 }
}

fn stage(policy: OnStoreError, failing: Duration) -> StoreErrorStage {
    match policy {
        OnStoreError::Allow => StoreErrorStage::Allow,
        OnStoreError::Deny => StoreErrorStage::Deny,
        OnStoreError::Local => StoreErrorStage::Local,
        OnStoreError::Staged { first, after, then } => {
            if failing < after {
                first
            } else {
                then
            }
        }
    }
}
