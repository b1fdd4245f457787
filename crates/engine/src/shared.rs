//! Deciding on the store that many nodes share, and what is done when it fails.
//!
//! A decision that the store does not settle in time is made by each rule's `on_store_error`: let pass,
//! denied, or held against this node's share of the limit, in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Limit, Micros, Outcome, Verdict};
use tidegate_stores::redis::{Circuit, RedisStore};
use tidegate_stores::{Charge, Intent, Store, Timed, Verdicts, blocked};

use crate::decide::{Charges, Scope, conclude, plan};
use crate::decision::{Decision, Item, Items, Source};
use crate::limiter::Inner;
use crate::permit::{Acquired, Lease, Permit};
use crate::request::Request;
use crate::rules::model::{OnStoreError, StoreErrorStage};
use crate::rules::tree::RuleSet;

/// When a denied request may come back while nobody can tell.
const RETRY_US: u64 = 1_000_000;

/// After which time of failing the whole fleet counts as in an emergency.
const EMERGENCY: Duration = Duration::from_mins(1);

/// How a node decides without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Of a limit's share of this node, how much it admits at once, in percent.
    pub share_percent: u32,
    /// The same once the store has failed for `tighten_after`.
    pub later_share_percent: u32,
    /// See above.
    pub tighten_after: Duration,
}

impl Default for Fallback {
    fn default() -> Self {
        Self { share_percent: 50, later_share_percent: 25, tighten_after: Duration::from_mins(1) }
    }
}

/// The store that nodes share, and how to do without it.
pub(crate) struct Shared {
    pub(crate) store: RedisStore,
    pub(crate) fallback: Fallback,
    pub(crate) counts: FallbackCounts,
}

/// What was decided without the store.
#[derive(Debug, Default)]
pub(crate) struct FallbackCounts {
    pub(crate) let_pass: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) local: AtomicU64,
}

/// How well the store does, and what was done without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// Every server, whether it is asked, and how long it has not been.
    pub servers: Vec<(String, Circuit, Option<Duration>)>,
    /// How often servers failed.
    pub failures: tidegate_stores::redis::Failures,
    /// How long the batches to each server took.
    pub latencies: Vec<tidegate_stores::redis::Latencies>,
    /// Decisions that let a request pass unseen, denied it unseen, or held it against the node's share.
    pub let_pass: u64,
    /// See above.
    pub denied: u64,
    /// See above.
    pub local: u64,
    /// How many nodes share the store.
    pub nodes: u32,
}

impl StoreHealth {
    /// 0 all is well, 1 some server fails, 2 all do or one does for long.
    pub fn degradation(&self) -> u8 {
        let open = self.servers.iter().filter(|(_, circuit, _)| *circuit == Circuit::Open).count();
        let long = self.servers.iter().any(|(_, _, open_for)| open_for.is_some_and(|time| time > EMERGENCY));
        match open {
            0 => 0,
            _ if long || open == self.servers.len() => 2,
            _ => 1,
        }
    }
}

impl Shared {
    pub(crate) fn health(&self) -> StoreHealth {
        StoreHealth {
            servers: self.store.circuits(),
            failures: self.store.failures(),
            latencies: self.store.latencies(),
            let_pass: self.counts.let_pass.load(Relaxed),
            denied: self.counts.denied.load(Relaxed),
            local: self.counts.local.load(Relaxed),
            nodes: self.store.nodes(),
        }
    }

    /// The part of a charge's limit that this node admits by itself now.
    pub(crate) fn share_of(&self, charge: &Charge<'_>) -> Limit {
        self.local_limit(charge.limit, self.store.failing_for(charge))
    }

    /// The part of a limit that this node admits by itself.
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
        // A share of a good limit is one, unless it drains for years; then the whole of it is.
        scaled.unwrap_or_else(|_| limit.clone())
    }
}

impl Inner {
    /// Decides a request by the shared store, or without it if it fails.
    pub(crate) async fn decide_shared(
        &self,
        shared: &Shared,
        request: &Request<'_>,
        scope: Scope,
        intent: Intent,
    ) -> Decision {
        let rules = self.rules.load();
        let (mut charges, mut items) = (Charges::new(), Items::new());
        let domain = plan(&rules, request, scope, &mut charges, &mut items);
        keep_together(&rules, domain, &mut charges, &items, request);
        let (source, allowed) =
            self.settle_shared_plan(shared, &rules, domain, &charges, &mut items, intent).await;
        // They borrow the rules, which the decision takes along.
        drop(charges);
        let mut decision = Decision::new(rules, domain, allowed, items);
        decision.source = source;
        *decision.under.brought = request.brought().clone();
        decision
    }

    /// Settles the charges of a request in the shared store, or without it if it fails, and answers whether
    /// the request passes.
    async fn settle_shared_plan(
        &self,
        shared: &Shared,
        rules: &RuleSet,
        domain: u32,
        charges: &Charges<'_>,
        items: &mut Items,
        intent: Intent,
    ) -> (Source, bool) {
        match shared.store.settle(charges, intent).await {
            Ok(verdicts) => (Source::Shared, conclude(charges, &verdicts, items)),
            Err(error) => {
                tracing::debug!(%error, "decided without the store");
                let verdicts = self.fall_back(shared, rules, domain, charges, items, intent);
                (Source::Fallback, conclude(charges, &verdicts, items))
            }
        }
    }

    /// Gives a request's cost back in the shared store; while that fails, to this node's share.
    pub(crate) async fn refund_shared(&self, shared: &Shared, request: &Request<'_>) {
        let rules = self.rules.load();
        let (mut charges, mut items) = (Charges::new(), Items::new());
        let domain = plan(&rules, request, Scope::Rates { hold: false }, &mut charges, &mut items);
        keep_together(&rules, domain, &mut charges, &items, request);
        if let Err(error) = shared.store.give_back(&charges).await {
            tracing::debug!(%error, "a refund was lost");
            self.store.give_back_now(&charges);
        }
    }

    /// Takes slots in the shared store; while that fails, of this node's share. The permit returns what was
    /// taken here, whatever the rules say by then.
    pub(crate) async fn acquire_shared(
        self: &Arc<Self>,
        shared: &Shared,
        request: &Request<'_>,
        lease: u64,
    ) -> Acquired {
        let rules = self.rules.load();
        let (mut charges, mut items) = (Charges::new(), Items::new());
        let domain = plan(&rules, request, Scope::Holders { lease }, &mut charges, &mut items);
        keep_together(&rules, domain, &mut charges, &items, request);
        let (source, allowed) =
            self.settle_shared_plan(shared, &rules, domain, &charges, &mut items, Intent::Take).await;
        if allowed {
            return Acquired::Permit(match source {
                Source::Shared => Permit::shared(self, Lease(lease), &charges),
                _ => Permit::new(self, Lease(lease), &charges),
            });
        }
        drop(charges);
        let mut decision = Decision::new(rules, domain, false, items);
        decision.source = source;
        *decision.under.brought = request.brought().clone();
        Acquired::Denied(decision)
    }

    /// Renews the slots of a lease; a store that cannot say counts as if it had.
    pub(crate) async fn renew_shared(&self, shared: &Shared, request: &Request<'_>, lease: Lease) -> bool {
        let rules = self.rules.load();
        let slots = Self::slots(&rules, request, lease.0);
        let mut all = !slots.is_empty();
        for slot in &slots {
            all &= shared.store.renew(slot).await.unwrap_or(true);
        }
        all
    }

    /// Returns the slots of a lease. What is lost returns after its time-out.
    pub(crate) async fn release_shared(&self, shared: &Shared, request: &Request<'_>, lease: Lease) -> bool {
        let rules = self.rules.load();
        let mut any = false;
        for slot in &Self::slots(&rules, request, lease.0) {
            any |= shared.store.release(slot).await.unwrap_or(false);
        }
        any
    }

    fn slots<'r>(rules: &'r RuleSet, request: &'r Request<'_>, lease: u64) -> Charges<'r> {
        let (mut charges, mut items) = (Charges::new(), Items::new());
        let domain = plan(rules, request, Scope::Holders { lease }, &mut charges, &mut items);
        keep_together(rules, domain, &mut charges, &items, request);
        charges
    }

    /// What each charge's rule says for when the store fails.
    fn fall_back(
        &self,
        shared: &Shared,
        rules: &RuleSet,
        domain: u32,
        charges: &[Charge<'_>],
        items: &Items,
        intent: Intent,
    ) -> Verdicts {
        self.fall_back_timed(shared, rules, domain, charges, items, intent).verdicts
    }

    /// The same, and when each charge was settled: those that nobody looked at, at the beginning of time.
    pub(crate) fn fall_back_timed(
        &self,
        shared: &Shared,
        rules: &RuleSet,
        domain: u32,
        charges: &[Charge<'_>],
        items: &Items,
        intent: Intent,
    ) -> Timed {
        let failing: SmallVec<[Duration; 4]> =
            charges.iter().map(|charge| shared.store.failing_for(charge)).collect();
        let policy = |item: &Item, failing: Duration| {
            let rule =
                rules.domains.get(domain as usize).and_then(|domain| domain.rules.get(item.rule as usize));
            stage(rule.map_or_else(OnStoreError::default, |rule| rule.on_store_error), failing)
        };
        let stages: SmallVec<[StoreErrorStage; 4]> =
            items.iter().zip(&failing).map(|(item, failing)| policy(item, *failing)).collect();
        let mut verdicts: Verdicts =
            charges.iter().zip(&stages).map(|(charge, stage)| unseen(charge, *stage)).collect();
        let intent = if blocked(charges, &verdicts) { Intent::Look } else { intent };
        let at = self.settle_locally(shared, charges, &stages, &failing, intent, &mut verdicts);
        let at = stages.iter().map(|stage| if *stage == StoreErrorStage::Local { at } else { Micros(0) });
        let counts = &shared.counts;
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

    /// Settles the charges that are held against the node's share, in memory, and answers when.
    fn settle_locally(
        &self,
        shared: &Shared,
        charges: &[Charge<'_>],
        stages: &[StoreErrorStage],
        failing: &[Duration],
        intent: Intent,
        verdicts: &mut Verdicts,
    ) -> Micros {
        let local = |number: &usize| stages[*number] == StoreErrorStage::Local;
        let numbers: SmallVec<[usize; 4]> = (0..charges.len()).filter(local).collect();
        let limits: Vec<_> =
            numbers.iter().map(|it| shared.local_limit(charges[*it].limit, failing[*it])).collect();
        let mine: Charges<'_> =
            numbers.iter().zip(&limits).map(|(number, limit)| Charge { limit, ..charges[*number] }).collect();
        let said = self.store.settle_timed_now(&mine, intent);
        for (number, verdict) in numbers.iter().zip(said.verdicts) {
            verdicts[*number] = verdict;
        }
        said.at.first().copied().unwrap_or_default()
    }
}

/// The verdict on a charge that nobody looks at.
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

/// Limits live together by the first entry of their descriptor, as far as that tells counters apart: what
/// is decided together is then mostly settled in one place.
pub(crate) fn keep_together(
    rules: &RuleSet,
    domain: u32,
    charges: &mut Charges<'_>,
    items: &Items,
    request: &Request<'_>,
) {
    let domain = rules.domains.get(domain as usize);
    for (charge, item) in charges.iter_mut().zip(items) {
        let Some((entries, _)) = request.descriptors().nth(usize::from(item.descriptor)) else { continue };
        let rule = domain.and_then(|domain| domain.rules.get(item.rule as usize));
        if let Some(part) = rules.part_of(request.domain(), rule, entries) {
            charge.part = part;
        }
    }
}
