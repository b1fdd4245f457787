//! The limiter: what an application holds and asks.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tidegate_core::{Key, Micros};
use tidegate_stores::memory::{MemoryStats, SnapshotError, SnapshotSummary};
use tidegate_stores::{Intent, SystemClock};

use crate::backend::Backend;
use crate::builder::Builder;
use crate::decide::{check_now, decide_now};
use crate::decision::{Charged, Decision};
use crate::inline_registry::InlineRegistry;
use crate::line::Lines;
use crate::plan::{Plan, Scope};
use crate::request::Request;
use crate::reservation::Book;
use crate::rules::current::CurrentRules;
use crate::rules::limit_spec::Defaults;
use crate::rules::origins::Origins;
use crate::rules::problem::Problems;
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
    pub(crate) backend: Backend,
    pub(crate) rules: CurrentRules,
    /// Where rules come from.
    pub(crate) origins: Origins,
    /// Why the last load was refused, if it was.
    pub(crate) refused: ArcSwapOption<Problems>,
    /// How often a load was refused.
    pub(crate) refusals: AtomicU64,
    pub(crate) lines: Lines<Key>,
    /// Counts the permits that were given out.
    pub(crate) permits: AtomicU64,
    /// Makes slot ids of the numbers above that nobody can guess from one they hold, and that never
    /// meet those restored from another process.
    pub(crate) slot_secret: RandomState,
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
}

impl Limiter {
    /// A limiter to be set up.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Decides a request and charges it: all of its limits, or none if one of them denies it.
    pub async fn check(&self, request: &Request<'_>) -> Decision {
        if self.is_shared() {
            return self.inner.decide(request, Scope::RATES, Intent::Take).await;
        }
        self.check_now(request)
    }

    /// Decides a request and charges it, without an await and by the counters of this process alone, even where
    /// nodes share a store. The same holds for all methods whose name ends with `_now`.
    #[inline]
    pub fn check_now(&self, request: &Request<'_>) -> Decision {
        check_now(&self.inner.rules, &self.inner.backend.memory, request)
    }

    /// Returns the decision of [`Limiter::check`] without charging anything.
    pub async fn peek(&self, request: &Request<'_>) -> Decision {
        self.inner.decide(request, Scope::RATES, Intent::Look).await
    }

    /// Returns the decision of [`Limiter::check_now`] without charging anything.
    pub fn peek_now(&self, request: &Request<'_>) -> Decision {
        let mut decision = Decision::from(Charged::new(self.inner.rules.load()));
        decide_now(&mut decision, &self.inner.backend.memory, request, Intent::Look);
        decision
    }

    /// Gives the request's cost back to its limits, never above full: for work that was charged and then not
    /// done. While the store that nodes share fails, this node's share of the limits gets it.
    pub async fn refund(&self, request: &Request<'_>) {
        let mut charged = Charged::new(self.inner.rules.load());
        let plan = self.inner.backend.plan(&mut charged, request, Scope::RATES);
        self.inner.backend.give_back(&plan.charges).await;
    }

    /// Gives the request's cost back to its limits in this process, never above full.
    pub fn refund_now(&self, request: &Request<'_>) {
        let mut charged = Charged::new(self.inner.rules.load());
        self.inner.backend.memory.give_back_now(&Plan::new(&mut charged, request, Scope::RATES).charges);
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

    /// The names of the domains that have rules.
    pub fn domain_names(&self) -> Vec<String> {
        self.inner.rules.load().domains.iter().map(|domain| domain.name.to_string()).collect()
    }

    /// Whether there are rules for a domain.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.inner.rules.load().domain(domain).is_some()
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
        self.inner.snapshots.as_ref().map(|snapshots| snapshots.write(&self.inner.backend.memory)).transpose()
    }

    /// What became of the snapshots so far; `None` if the limiter was built without one.
    pub fn snapshot_health(&self) -> Option<SnapshotHealth> {
        self.inner.snapshots.as_ref().map(Snapshots::health)
    }

    /// Whether nodes share a store, which has to be waited for.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.inner.backend.shared().is_some()
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
        self.inner.backend.memory.now()
    }

    /// What the store holds and has done.
    pub fn stats(&self) -> MemoryStats {
        self.inner.backend.memory.stats()
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
            && let Err(error) = snapshots.write(&limiter.backend.memory)
        {
            tracing::error!(%error, "the last snapshot was not written");
        }
    }
}
