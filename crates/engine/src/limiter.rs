//! The limiter, the main type of the library.

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

/// Decides requests by rules. Clones are cheap and share all counters.
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
    /// Dropped with the last clone. Permits and background threads may keep `inner` alive for longer.
    pub(crate) _last_word: Arc<LastWord>,
}

pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) rules: CurrentRules,
    /// Where rules come from.
    pub(crate) origins: Origins,
    /// The problems of the last load, if it was refused.
    pub(crate) refused: ArcSwapOption<Problems>,
    /// The number of refused loads.
    pub(crate) refusals: AtomicU64,
    pub(crate) lines: Lines<Key>,
    /// The number of permits so far.
    pub(crate) permits: AtomicU64,
    /// Turns the numbers of permits into slot IDs that cannot be guessed from other IDs, and that differ from those
    /// restored from another process.
    pub(crate) slot_secret: RandomState,
    pub(crate) inline: InlineRegistry,
    /// Numbers the unnamed limiters of an application.
    pub(crate) scopes: Arc<ScopeNumbers>,
    /// Reservations that are kept in this process.
    pub(crate) reservations: Book,
    pub(crate) defaults: Defaults,
    /// Writes snapshots, if a file was set.
    pub(crate) snapshots: Option<Snapshots>,
    /// Whether the last clone of the limiter was dropped, so that no more snapshots are written.
    pub(crate) closed: AtomicBool,
    /// The clock that is adjusted to wall time; `None` if another clock was injected.
    pub(crate) system_clock: Option<Arc<SystemClock>>,
}

impl Limiter {
    /// Returns a builder.
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

    /// Decides a request and charges it, without an await. All methods whose name ends with `_now` use only the
    /// counters of this process, even if nodes share a store.
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
        decide_now(self.inner.rules.load(), &self.inner.backend.memory, request, Intent::Look)
    }

    /// Refunds the request's cost to its limits, never above full, for work that was charged and then not done. While
    /// the shared store fails, the refund goes to this node's share of the limits.
    pub async fn refund(&self, request: &Request<'_>) {
        let mut charged = Charged::new(self.inner.rules.load());
        let plan = self.inner.backend.plan(&mut charged, request, Scope::RATES);
        self.inner.backend.give_back(&plan.charges).await;
    }

    /// Refunds the request's cost to its limits in this process, never above full.
    pub fn refund_now(&self, request: &Request<'_>) {
        let mut charged = Charged::new(self.inner.rules.load());
        self.inner.backend.memory.give_back_now(&Plan::new(&mut charged, request, Scope::RATES).charges);
    }

    /// Waits until the request passes, for at most `patience`. Returns a denial if the request cannot pass by then,
    /// and does so at once if that is known, as Guava's `tryAcquire` does.
    ///
    /// Requests that wait for the same limits pass in the order in which they came. Needs a tokio runtime with time
    /// enabled.
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

    /// Returns the names of the domains that have rules.
    pub fn domain_names(&self) -> Vec<String> {
        self.inner.rules.load().domains.iter().map(|domain| domain.name.to_string()).collect()
    }

    /// Returns whether there are rules for a domain.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.inner.rules.load().domain(domain).is_some()
    }

    /// Returns whether there are any rules. Without rules, every request passes.
    pub fn has_rules(&self) -> bool {
        !self.inner.rules.load().domains.is_empty()
    }

    /// Returns the problems of the rule files if they were refused, so that older rules are in force.
    pub fn refused_rules(&self) -> Option<Arc<Problems>> {
        self.inner.refused.load_full()
    }

    /// Returns how many reloads were refused.
    pub fn refusals(&self) -> u64 {
        self.inner.refusals.load(Ordering::Relaxed)
    }

    /// Returns how many times rules were put in force.
    pub fn generation(&self) -> u64 {
        self.inner.rules.load().generation
    }

    /// Writes all counters to the snapshot file. Returns `None` if the limiter was built without one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. The previous snapshot is kept then.
    pub fn snapshot(&self) -> Result<Option<SnapshotSummary>, SnapshotError> {
        self.inner.snapshots.as_ref().map(|snapshots| snapshots.write(&self.inner.backend.memory)).transpose()
    }

    /// Returns the state of snapshots; `None` if the limiter was built without one.
    pub fn snapshot_health(&self) -> Option<SnapshotHealth> {
        self.inner.snapshots.as_ref().map(Snapshots::health)
    }

    /// Returns whether nodes share a store, so that decisions have to await it.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.inner.backend.shared().is_some()
    }

    /// Writes all counters for the last time. Dropping the limiter does so too, but cannot report a failure. Returns
    /// `None` if the limiter was built without a snapshot.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. The previous snapshot is kept then.
    pub fn close(&self) -> Result<Option<SnapshotSummary>, SnapshotError> {
        self.inner.closed.store(true, Ordering::Release);
        self.snapshot()
    }

    /// Returns the current time of the limiter's clock.
    pub fn now(&self) -> Micros {
        self.inner.backend.memory.now()
    }

    /// Returns statistics of the memory store.
    pub fn stats(&self) -> MemoryStats {
        self.inner.backend.memory.stats()
    }
}

/// Writes the last snapshot of a limiter when it is dropped, so that a restart does not refill limits.
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
