//! The limiter: what an application holds and asks.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tidegate_core::Micros;
use tidegate_stores::memory::{MemoryStats, SnapshotError, SnapshotSummary};
use tidegate_stores::{MemoryStore, SystemClock};

use crate::builder::Builder;
use crate::decide::{Charges, Intent, Scope, charges, check, decide};
use crate::decision::Decision;
use crate::inline_registry::InlineRegistry;
use crate::line::Lines;
#[cfg(feature = "remote")]
use crate::remote::Service;
use crate::request::Request;
use crate::reservation::Book;
use crate::rules::current::CurrentRules;
use crate::rules::difference::Difference;
use crate::rules::limit_spec::Defaults;
use crate::rules::problem::Problems;
use crate::rules::source::Source;
use crate::rules::tree::RuleSet;
#[cfg(feature = "redis")]
use crate::shared::{Shared, StoreHealth};
use crate::snapshots::{SnapshotHealth, Snapshots};
use crate::unnamed::ScopeNumbers;

/// Decides requests by rules. Cheap to clone: all clones are the same limiter.
///
/// ```
/// use tidegate::{Domain, Limiter, Request, Rule, per_minute};
///
/// let limiter = Limiter::builder()
///     .domain(Domain::new("api").rule(Rule::by("user").limit(per_minute(100).burst(20))))
///     .build()?;
///
/// if limiter.check_now(&Request::new("api", [("user", "ann")])).allowed() {
///     // serve it
/// }
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    pub(crate) inner: Arc<Inner>,
    /// Dropped with the last clone. Others may hold on to `inner` for longer: permits, and the
    /// keeper while it works.
    pub(crate) _last_word: Arc<LastWord>,
}

pub(crate) struct Inner {
    pub(crate) store: MemoryStore,
    pub(crate) rules: CurrentRules,
    /// Where rules come from; locked while they are loaded, so that loads do not overtake each other.
    pub(crate) source: Mutex<Source>,
    /// Why the last load was refused, if it was.
    pub(crate) refused: ArcSwapOption<Problems>,
    /// How often a load was refused.
    pub(crate) refusals: AtomicU64,
    pub(crate) lines: Lines,
    pub(crate) leases: AtomicU64,
    /// Makes leases of the numbers above that nobody can guess from one they hold, and that never
    /// meet those restored from another process.
    pub(crate) lease_secret: RandomState,
    pub(crate) inline: InlineRegistry,
    /// Tells limiters of an application apart that nobody named.
    pub(crate) scopes: Arc<ScopeNumbers>,
    /// Reservations that are kept in this process.
    pub(crate) reservations: Book,
    pub(crate) defaults: Defaults,
    /// Writes snapshots, if there are to be any.
    pub(crate) snapshots: Option<Snapshots>,
    /// Whether the last clone of the limiter is gone, and its snapshot the last word.
    pub(crate) closed: AtomicBool,
    /// The clock to keep in step with the wall, unless another was injected.
    pub(crate) system_clock: Option<Arc<SystemClock>>,
    /// The store that nodes share, if they do; memory is then for when it fails.
    #[cfg(feature = "redis")]
    pub(crate) shared: Option<Shared>,
    /// The service that is asked instead, if one is; memory is then for when it fails.
    #[cfg(feature = "remote")]
    pub(crate) remote: Option<Arc<Service>>,
    /// Whether there is one of the two: one question on the way of every decision.
    #[cfg(any(feature = "redis", feature = "remote"))]
    pub(crate) away: bool,
}

#[cfg_attr(
    not(any(feature = "redis", feature = "remote")),
    expect(clippy::unused_async, reason = "the memory store never waits; stores across a network do")
)]
impl Limiter {
    /// A limiter to be set up.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Decides a request and charges it: all of its limits, or none if one of them denies it.
    pub async fn check(&self, request: &Request<'_>) -> Decision {
        #[cfg(any(feature = "redis", feature = "remote"))]
        if self.inner.away {
            return self.inner.decide_anywhere(request, Scope::Rates { hold: false }, Intent::Take).await;
        }
        self.check_now(request)
    }

    /// As [`Limiter::check`], without an await: memory never waits. Where nodes share a store, this and
    /// the others like it decide by memory alone, as if there were no such store.
    #[inline]
    pub fn check_now(&self, request: &Request<'_>) -> Decision {
        check(&self.inner.rules, &self.inner.store, request)
    }

    /// What [`Limiter::check`] would answer, charging nothing. A remote service is asked what is left of
    /// each limit, and `retry_after` is then when all of it is back.
    pub async fn peek(&self, request: &Request<'_>) -> Decision {
        self.inner.decide_anywhere(request, Scope::Rates { hold: false }, Intent::Look).await
    }

    /// As [`Limiter::peek`], without an await.
    pub fn peek_now(&self, request: &Request<'_>) -> Decision {
        self.inner.decide(request, Scope::Rates { hold: false }, Intent::Look)
    }

    /// Gives the request's cost back to its limits, never above full: for work that was charged and
    /// then not done. Of a store across a network that fails, what this process counts meanwhile gets it.
    pub async fn refund(&self, request: &Request<'_>) {
        #[cfg(feature = "remote")]
        if let Some(service) = &self.inner.remote {
            return self.inner.refund_remote(service, request).await;
        }
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.inner.shared {
            return self.inner.refund_shared(shared, request).await;
        }
        self.refund_now(request);
    }

    /// As [`Limiter::refund`], without an await.
    pub fn refund_now(&self, request: &Request<'_>) {
        self.inner.give_back(request);
    }

    /// Waits until the request passes, for at most `patience`, and answers a denial if it cannot
    /// pass by then: at once where that is known, as with Guava's `tryAcquire`.
    ///
    /// Those who wait for the same limits pass in the order they came. Needs a tokio runtime with
    /// time enabled.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Domain, Limiter, Request, Rule, per_second};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tidegate::BuildError> {
    /// # let limiter = Limiter::builder().domain(Domain::new("mail").rule(Rule::by("host").limit(per_second(50).queue(10)))).build()?;
    /// let request = Request::new("mail", [("host", "example.org")]);
    /// for _ in 0..3 {
    ///     let decision = limiter.until_ready(&request, Duration::from_secs(1)).await;
    ///     assert!(decision.allowed()); // 20 ms apart
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn until_ready(&self, request: &Request<'_>, patience: Duration) -> Decision {
        crate::line::until_ready(&self.inner, request, patience).await
    }

    /// Reads the rules anew. All files load, or nothing changes.
    ///
    /// Happens by itself within a second of a change to the files.
    ///
    /// # Errors
    /// Every mistake in the files.
    pub fn reload(&self) -> Result<(), Problems> {
        self.inner.reload()
    }

    /// The names of the domains that have rules.
    pub fn domain_names(&self) -> Vec<String> {
        self.inner.rules.load().domains.iter().map(|domain| domain.name.to_string()).collect()
    }

    /// Whether there are any rules at all; without, every request passes.
    pub fn has_rules(&self) -> bool {
        !self.inner.rules.load().domains.is_empty()
    }

    /// Why the rules on disk are not the ones in force, if they are not.
    pub fn refused_rules(&self) -> Option<Arc<Problems>> {
        self.inner.refused.load_full()
    }

    /// How many times a reload was refused.
    pub fn refusals(&self) -> u64 {
        self.inner.refusals.load(Ordering::Relaxed)
    }

    /// How many times rules were loaded; grows with each reload that took effect.
    pub fn generation(&self) -> u64 {
        self.inner.rules.load().generation
    }

    /// Writes all counters to the snapshot file; `None` if the limiter was built without one.
    ///
    /// # Errors
    /// If the disk says no; the file from before is then still there.
    pub fn snapshot(&self) -> Result<Option<SnapshotSummary>, SnapshotError> {
        self.inner.snapshots.as_ref().map(|snapshots| snapshots.write(&self.inner.store)).transpose()
    }

    /// What became of the snapshots so far; `None` if the limiter was built without one.
    pub fn snapshot_health(&self) -> Option<SnapshotHealth> {
        self.inner.snapshots.as_ref().map(Snapshots::health)
    }

    /// Whether nodes share a store, which takes a while to answer.
    #[cfg(feature = "redis")]
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.inner.shared.is_some()
    }

    /// How the store that nodes share does; `None` if there is none.
    #[cfg(feature = "redis")]
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.inner.shared.as_ref().map(Shared::health)
    }

    /// Writes all counters for the last time, which dropping the limiter would do too, but could not tell
    /// whether it failed. `None` if the limiter was built without a snapshot.
    ///
    /// # Errors
    /// As [`Limiter::snapshot`].
    pub fn close(&self) -> Result<Option<SnapshotSummary>, SnapshotError> {
        self.inner.closed.store(true, Ordering::Release);
        self.snapshot()
    }

    /// The time by the limiter's clock.
    pub fn now(&self) -> Micros {
        self.inner.store.now()
    }

    /// What the store holds and has done.
    pub fn stats(&self) -> MemoryStats {
        self.inner.store.stats()
    }
}

impl Inner {
    /// Decides by whichever store there is.
    #[cfg_attr(
        not(any(feature = "redis", feature = "remote")),
        expect(clippy::unused_async, reason = "memory never waits")
    )]
    pub(crate) async fn decide_anywhere(
        &self,
        request: &Request<'_>,
        scope: Scope,
        intent: Intent,
    ) -> Decision {
        #[cfg(feature = "remote")]
        if let Some(service) = &self.remote {
            return self.decide_remote(service, request, intent).await;
        }
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.shared {
            return self.decide_shared(shared, request, scope, intent).await;
        }
        self.decide(request, scope, intent)
    }

    /// Gives charges back without waiting until it is done.
    pub(crate) fn give_back_soon(&self, charges: &Charges<'_>) {
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.shared {
            return shared.store.give_back_soon(charges);
        }
        self.store.give_back_now(charges);
    }

    pub(crate) fn decide(&self, request: &Request<'_>, scope: Scope, intent: Intent) -> Decision {
        decide(self.rules.load(), &self.store, request, scope, intent)
    }

    pub(crate) fn give_back(&self, request: &Request<'_>) {
        let rules = self.rules.load();
        self.store.give_back_now(&charges(&rules, request, Scope::Rates { hold: false }));
    }

    pub(crate) fn reload(&self) -> Result<(), Problems> {
        let mut source = self.source.lock();
        match source.load(self.store.seed(), self.rules.load().generation + 1) {
            Ok(rules) => {
                self.put_in_force(rules);
                self.refused.store(None);
                Ok(())
            }
            Err(problems) => {
                tracing::warn!(%problems, "rules refused, the last good ones stay in force");
                self.refusals.fetch_add(1, Ordering::Relaxed);
                self.refused.store(Some(Arc::new(problems.clone())));
                Err(problems)
            }
        }
    }

    pub(crate) fn put_in_force(&self, mut rules: RuleSet) {
        let generation = rules.generation;
        let Difference { added, removed, changed } = Difference::between(&self.rules.load(), &rules);
        rules.go_on_counting(&self.rules.load());
        self.inline.keep_domains_of(&rules);
        self.rules.store(rules);
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.shared {
            shared.store.forget_denials();
        }
        tracing::info!(
            generation,
            added = Difference::named(&added),
            removed = Difference::named(&removed),
            changed = Difference::named(&changed),
            "rules reloaded"
        );
    }
}

/// The last word of a limiter goes to disk, so that a restart is not a free refill.
pub(crate) struct LastWord(pub(crate) Arc<Inner>);

impl Drop for LastWord {
    fn drop(&mut self) {
        let Self(limiter) = self;
        if limiter.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(snapshots) = &limiter.snapshots
            && let Err(error) = snapshots.write(&limiter.store)
        {
            tracing::error!(%error, "the last snapshot was not written");
        }
    }
}
