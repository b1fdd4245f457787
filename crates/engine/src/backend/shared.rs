//! The store that many nodes share, Redis or Valkey.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_core::{Limit, Micros};
use tidegate_stores::redis::url::StoreUrlError;
use tidegate_stores::redis::{Circuit, RedisStore, RedisStoreConfig};
use tidegate_stores::{Charge, Corrected, Correction, Intent, MemoryStore, Store as _, StoreError};

use super::Fallback;
use super::fallback::FallbackCounts;
use crate::builder::{BuildError, Builder};
use crate::decision::Source;
use crate::limiter::Limiter;
use crate::plan::Plan;
use crate::rules::tree::RuleSet;

/// After which time of failing the whole fleet counts as in an emergency.
const EMERGENCY: Duration = Duration::from_mins(1);

/// The store that nodes share, and how to do without it.
pub(crate) struct Shared {
    pub(super) store: RedisStore,
    pub(super) fallback: Fallback,
    pub(super) counts: FallbackCounts,
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
    /// Decisions that let a request pass without looking at its limits.
    pub let_pass: u64,
    /// Decisions that denied a request without looking at its limits.
    pub denied: u64,
    /// Decisions that held a request against this node's share of its limits.
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
    pub(crate) fn new(store: RedisStore, fallback: Fallback) -> Self {
        Self { store, fallback, counts: FallbackCounts::default() }
    }

    /// How well the store does, and how many decisions were made without it.
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

    /// The store itself.
    pub(crate) fn store(&self) -> &RedisStore {
        &self.store
    }

    /// Settles a plan, or falls back to what its rules say for when the store fails.
    pub(crate) async fn settle(&self, memory: &MemoryStore, plan: &mut Plan<'_>, intent: Intent) {
        match self.store.settle(&plan.charges, intent).await {
            Ok(verdicts) => plan.conclude(&verdicts, Source::Shared),
            Err(error) => {
                tracing::debug!(%error, "decided without the store");
                let verdicts = self.fall_back(memory, plan, intent).verdicts;
                plan.conclude(&verdicts, Source::Fallback);
            }
        }
    }

    /// Corrects charges where they were taken: in the store, or in this node's share of their limits.
    pub(crate) async fn correct(
        &self,
        memory: &MemoryStore,
        source: Source,
        corrections: &[(Charge<'_>, Correction)],
    ) -> Corrected {
        if source == Source::Shared {
            return self.store.correct(corrections).await;
        }
        let limits: Vec<Limit> = corrections.iter().map(|(charge, _)| self.share_of(charge)).collect();
        let of_share = corrections.iter().zip(&limits);
        let of_share: Vec<_> = of_share
            .map(|((charge, correction), limit)| (Charge { limit, ..*charge }, *correction))
            .collect();
        memory.correct_now(&of_share).into_iter().map(Ok).collect()
    }

    pub(crate) fn give_back_soon(&self, charges: &[Charge<'_>]) {
        self.store.give_back_soon(charges);
    }

    pub(crate) fn release_soon(&self, slot: &Charge<'_>) {
        self.store.release_soon(slot);
    }

    /// Keeps the record of a reservation where every node finds it.
    pub(crate) async fn keep(&self, name: &str, record: &[u8], lifetime: Duration) -> Result<(), StoreError> {
        self.store.keep(name, record, lifetime).await
    }

    /// Takes the record of a reservation out of the store, with the store's time. By the same claim it can be taken
    /// again by whoever got no reply.
    pub(crate) async fn take_kept(
        &self,
        name: &str,
        claim: u64,
    ) -> Result<(Option<Vec<u8>>, Micros), StoreError> {
        self.store.take_kept(name, claim).await
    }

    /// About the time of the store.
    pub(crate) fn about(&self) -> Micros {
        self.store.about()
    }

    pub(crate) fn forget_denials(&self) {
        self.store.forget_denials();
    }

    /// Forgets what was denied to tenants that have changed: where all of their counters are known only those, so
    /// that a flood of others still costs nothing while tenants are changed one after the other.
    pub(crate) fn forget_denials_of(&self, before: &RuleSet, now: &RuleSet, tenants: &[String]) {
        for tenant in tenants {
            if !now.changed_counters(before, tenant, |charges| self.store.forget_denials_of(charges)) {
                return self.store.forget_denials();
            }
        }
    }
}

impl Limiter {
    /// How well the store that nodes share does; `None` if there is none.
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.inner.backend.shared().map(Shared::health)
    }
}

impl Builder {
    /// Keeps counters in Redis or Valkey, which other nodes share: `redis://localhost:6379`, or one of the
    /// other addresses of a store. While it fails, rules decide by their `on_store_error`, and memory keeps
    /// this node's share. The limiter is then built by [`Builder::connect`].
    ///
    /// ```no_run
    /// # use tidegate::{Domain, Limiter, Rule, per_minute};
    /// # async fn example() -> Result<(), tidegate::BuildError> {
    /// let api = Domain::new("api").rule(Rule::by("user").limit(per_minute(100)));
    /// let limiter = Limiter::builder().domain(api).redis("redis://localhost:6379").connect().await?;
    /// # Ok(()) }
    /// ```
    pub fn redis(mut self, url: impl Into<String>) -> Self {
        self.store_url = Some(url.into());
        self
    }

    /// What keys are made from, so that nobody who does not know it can find another's. All nodes that share
    /// a store must have the same.
    pub fn redis_secret(mut self, secret: impl Into<String>) -> Self {
        self.key_secret = Some(secret.into());
        self
    }

    /// As [`Builder::redis`], on a store that is set up already.
    ///
    /// All nodes must have the same `secret`: keys are made from it, so that nobody who does not know it
    /// can find another's.
    pub fn redis_store(mut self, store: RedisStore, fallback: Fallback, secret: &str) -> Self {
        self.shared = Some(Shared::new(store, fallback));
        self.key_secret = Some(secret.to_owned());
        self
    }

    /// As [`Builder::build`], once Redis has been looked for: for a second at most, and then it is used as
    /// soon as it is there. Needs a tokio runtime, on which the store goes on looking.
    ///
    /// # Errors
    /// As [`Builder::build`], or if the address of the store is not valid.
    pub async fn connect(mut self) -> Result<Limiter, BuildError> {
        if let Some(url) = self.store_url.take() {
            let url = url.parse().map_err(|error: StoreUrlError| BuildError::StoreUrl(Box::new(error)))?;
            let store = RedisStore::connect(RedisStoreConfig::new(url)).await;
            let secret = self.key_secret.take().unwrap_or_default();
            if secret.is_empty() {
                tracing::warn!(
                    "there is no redis_secret: whoever knows this program can find keys that meet others'"
                );
            }
            self = self.redis_store(store, Fallback::default(), &secret);
        }
        self.build()
    }
}
