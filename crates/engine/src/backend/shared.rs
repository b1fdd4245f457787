//! The store that many nodes share: Redis or Valkey.

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

/// If a server has failed for longer than this, [`StoreHealth::degradation`] is 2.
const EMERGENCY: Duration = Duration::from_mins(1);

/// The shared store, and its fallback.
pub(crate) struct Shared {
    pub(super) store: RedisStore,
    pub(super) fallback: Fallback,
    pub(super) counts: FallbackCounts,
}

/// The health of the shared store, and counts of the decisions made without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// Every server: its address, the state of its circuit breaker, and for how long it has been failing.
    pub servers: Vec<(String, Circuit, Option<Duration>)>,
    /// How many times servers failed, by kind.
    pub failures: tidegate_stores::redis::Failures,
    /// The latencies of batches, by server.
    pub latencies: Vec<tidegate_stores::redis::Latencies>,
    /// The number of requests that were allowed without evaluating their limits.
    pub let_pass: u64,
    /// The number of requests that were denied without evaluating their limits.
    pub denied: u64,
    /// The number of requests that were decided by this node's share of their limits.
    pub local: u64,
    /// The number of nodes that share the store.
    pub nodes: u32,
}

impl StoreHealth {
    /// Returns 0 if all servers respond, 1 if a server fails, and 2 if all fail or one has failed for more than a
    /// minute.
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

    /// Returns the health of the store, and counts of the decisions made without it.
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

    /// Returns the store itself.
    pub(crate) fn store(&self) -> &RedisStore {
        &self.store
    }

    /// Settles a plan in the store, or by the fallback of its rules if the store fails.
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

    /// Stores the record of a reservation where every node finds it.
    pub(crate) async fn keep(&self, name: &str, record: &[u8], lifetime: Duration) -> Result<(), StoreError> {
        self.store.keep(name, record, lifetime).await
    }

    /// Removes the record of a reservation from the store, and returns it with the store's time. A caller that got no
    /// reply can repeat this with the same claim.
    pub(crate) async fn take_kept(
        &self,
        name: &str,
        claim: u64,
    ) -> Result<(Option<Vec<u8>>, Micros), StoreError> {
        self.store.take_kept(name, claim).await
    }

    /// Returns an estimate of the store's current time.
    pub(crate) fn about(&self) -> Micros {
        self.store.about()
    }

    pub(crate) fn forget_denials(&self) {
        self.store.forget_denials();
    }

    /// Clears the recent denials of tenants that have changed. If all their counters are known, only those are
    /// cleared, so that floods of other tenants still cost nothing while tenants are changed one by one.
    pub(crate) fn forget_denials_of(&self, before: &RuleSet, now: &RuleSet, tenants: &[String]) {
        for tenant in tenants {
            if !now.changed_counters(before, tenant, |charges| self.store.forget_denials_of(charges)) {
                return self.store.forget_denials();
            }
        }
    }
}

impl Limiter {
    /// Returns the health of the shared store; `None` if there is none.
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.inner.backend.shared().map(Shared::health)
    }
}

impl Builder {
    /// Stores counters in Redis or Valkey, where other nodes share them. The URL is `redis://localhost:6379` or
    /// another store URL. While the store fails, each rule's `on_store_error` decides, and this node's share is
    /// counted in memory. Build the limiter with [`Builder::connect`].
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

    /// Sets the secret that the names of counters are hashed with, so that nobody without it can derive the name of
    /// another key's counter. All nodes that share a store must have the same secret.
    pub fn redis_secret(mut self, secret: impl Into<String>) -> Self {
        self.key_secret = Some(secret.into());
        self
    }

    /// Uses a store that is already set up, in place of [`Builder::redis`].
    ///
    /// The names of counters are hashed with `secret`, so that nobody without it can derive the name of another key's
    /// counter. All nodes that share a store must have the same secret.
    pub fn redis_store(mut self, store: RedisStore, fallback: Fallback, secret: &str) -> Self {
        self.shared = Some(Shared::new(store, fallback));
        self.key_secret = Some(secret.to_owned());
        self
    }

    /// Builds the limiter as [`Builder::build`] does, after waiting up to a second for Redis. If Redis is not
    /// reachable by then, it is used as soon as it is. Needs a tokio runtime, on which the store keeps trying to
    /// connect.
    ///
    /// # Errors
    /// Returns the errors of [`Builder::build`], or an error if the URL of the store is invalid.
    pub async fn connect(mut self) -> Result<Limiter, BuildError> {
        if let Some(url) = self.store_url.take() {
            let url = url.parse().map_err(|error: StoreUrlError| BuildError::StoreUrl(Box::new(error)))?;
            let store = RedisStore::connect(RedisStoreConfig::new(url)).await;
            let secret = self.key_secret.take().unwrap_or_default();
            if secret.is_empty() {
                tracing::warn!(
                    "there is no redis_secret: clients can find values whose keys collide with those of others; set one"
                );
            }
            self = self.redis_store(store, Fallback::default(), &secret);
        }
        self.build()
    }
}
