//! The builder of limiters.

use std::hash::RandomState;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use thiserror::Error;
use tidegate_core::{Clock, KeySeed};
use tidegate_stores::memory::SnapshotError;
use tidegate_stores::{MemoryStore, MemoryStoreConfig, SystemClock};
use xxhash_rust::xxh3::xxh3_64;

use crate::backend::{Backend, Shared};
use crate::inline_registry::{DEFAULT_MAX_INLINE_LIMITS, InlineRegistry};
use crate::keeper;
use crate::limiter::{Inner, LastWord, Limiter};
use crate::line::Lines;
use crate::reservation::{Book, DEFAULT_MAX_RESERVATIONS};
use crate::rules::current::CurrentRules;
use crate::rules::limit_spec::Defaults;
use crate::rules::model::Domain;
use crate::rules::origins::files::Files;
use crate::rules::origins::{OriginState, Origins};
use crate::rules::problem::Problems;
use crate::snapshots::Snapshots;
use crate::switches::Switches;
use crate::tenants::TenantSource;
use crate::warning;

/// Builds a [`Limiter`].
///
/// ```no_run
/// use std::time::Duration;
/// use tidegate::Limiter;
///
/// let limiter = Limiter::builder()
///     .rules("/etc/tidegate/rules") // a file or a folder; changes take effect within a second
///     .snapshot("/var/lib/tidegate/counters", Duration::from_secs(60))
///     .build()?;
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[must_use = "nothing happens until `build` is called"]
pub struct Builder {
    domains: Vec<Domain>,
    default_domains: Vec<Domain>,
    paths: Vec<PathBuf>,
    defaults: Defaults,
    max_keys: usize,
    max_reservations: usize,
    max_inline_limits: usize,
    clock: Option<Arc<dyn Clock>>,
    snapshot: Option<(PathBuf, Duration)>,
    watch: bool,
    may_wait: bool,
    pub(crate) shared: Option<Shared>,
    /// The address of a shared store that is not connected yet.
    pub(crate) store_url: Option<String>,
    pub(crate) key_secret: Option<String>,
    switches: Switches,
    tenants: Option<Arc<dyn TenantSource>>,
}

/// Reasons why a limiter cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The rules have mistakes.
    #[error("{0}")]
    Rules(#[from] Problems),
    /// The snapshot file exists but cannot be used.
    #[error("{0}")]
    Snapshot(#[from] SnapshotError),
    /// A background thread of the limiter could not be started.
    #[error("the limiter's keeper thread could not be started: {0}")]
    Keeper(std::io::Error),
    /// The address of the shared store is not valid.
    #[error("{0}")]
    StoreUrl(Box<dyn std::error::Error + Send + Sync>),
    /// The limiter has a shared store, which only the asynchronous `connect` can reach.
    #[error("a limiter on redis(url) is built by connect().await, not by build()")]
    NotConnected,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            domains: Vec::new(),
            default_domains: Vec::new(),
            paths: Vec::new(),
            defaults: Defaults::default(),
            max_keys: 10_000_000,
            max_reservations: DEFAULT_MAX_RESERVATIONS,
            max_inline_limits: DEFAULT_MAX_INLINE_LIMITS,
            clock: None,
            snapshot: None,
            watch: true,
            may_wait: false,
            shared: None,
            store_url: None,
            key_secret: None,
            switches: Switches::default(),
            tenants: None,
        }
    }

    /// Keeps counters in memory. This is the default; the method makes it explicit.
    pub fn memory(self) -> Self {
        self
    }

    /// Sets the kill switches that the limiter starts with.
    pub fn switches(mut self, switches: Switches) -> Self {
        self.switches = switches;
        self
    }

    /// Sets the source of tenants that have a tier or overrides. It is read every time rules are loaded; report
    /// changes in between with [`Limiter::change_tenants`].
    pub fn tenants(mut self, tenants: Arc<dyn TenantSource>) -> Self {
        self.tenants = Some(tenants);
        self
    }

    /// Adds a domain built in code.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domains.push(domain);
        self
    }

    /// Adds a domain that is used only while no code, file or catalog defines a domain with the same name.
    pub fn default_domain(mut self, domain: Domain) -> Self {
        self.default_domains.push(domain);
        self
    }

    /// Adds a rule file, or a folder of them (`*.yaml`, `*.yml`).
    pub fn rules(mut self, path: impl AsRef<Path>) -> Self {
        self.paths.push(path.as_ref().to_owned());
        self
    }

    /// Sets whether changed rule files are reloaded automatically. The default is true.
    pub fn watch(mut self, watch: bool) -> Self {
        self.watch = watch;
        self
    }

    /// Sets whether the limiter may start while its rules folder is empty. Every request passes until rules are
    /// added. By default an empty folder is an error.
    pub fn rules_may_come_later(mut self, may_wait: bool) -> Self {
        self.may_wait = may_wait;
        self
    }

    /// Sets the defaults for fields that rules leave out.
    pub fn defaults(mut self, defaults: Defaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Sets the maximum number of keys in memory. The default is ten million. At the maximum, a new key evicts the
    /// least used key of its page.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets the maximum number of open reservations in this process. The default is one million. At the maximum,
    /// new reservations are refused until some are settled or expire.
    pub fn max_reservations(mut self, max_reservations: usize) -> Self {
        self.max_reservations = max_reservations;
        self
    }

    /// Sets the maximum number of single inline limits that all domains have in use. The default is one million. At
    /// the maximum, the one that was unused for longest is dropped; it keeps its counters if it is sent again.
    pub fn max_inline_limits(mut self, max_inline_limits: usize) -> Self {
        self.max_inline_limits = max_inline_limits;
        self
    }

    /// Sets the clock, such as a [`tidegate_core::VirtualClock`] in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Restores counters from this file if it exists, and saves them to it at this interval and when the last clone of
    /// the limiter is dropped.
    pub fn snapshot(mut self, path: impl AsRef<Path>, every: Duration) -> Self {
        self.snapshot = Some((path.as_ref().to_owned(), every));
        self
    }

    /// Reads rules and counters, and starts the limiter.
    ///
    /// # Errors
    /// Returns every mistake in the rules, or the reason why the snapshot cannot be used.
    pub fn build(self) -> Result<Limiter, BuildError> {
        warning::one_is_built();
        if self.store_url.is_some() {
            return Err(BuildError::NotConnected);
        }
        let system_clock = self.clock.is_none().then(|| Arc::new(SystemClock::new()));
        let clock = self.clock.or_else(|| system_clock.clone().map(|clock| clock as Arc<dyn Clock>));
        let mut config = MemoryStoreConfig { max_keys: self.max_keys, ..MemoryStoreConfig::new() };
        if let Some(clock) = clock {
            config.clock = clock;
        }
        if let Some(secret) = &self.key_secret {
            config.seed = KeySeed(xxh3_64(secret.as_bytes()));
        }
        let store = match &self.snapshot {
            Some((path, _)) if path.exists() => {
                let (store, summary) = MemoryStore::restore(path, config)?;
                tracing::info!(keys = summary.keys, path = %path.display(), "counters restored");
                store
            }
            _ => MemoryStore::new(config),
        };
        let mut files = Files::new(self.paths);
        let read = files.read(&self.defaults);
        let state = OriginState::new(self.domains, self.default_domains, self.defaults, self.switches);
        let wait = self.may_wait && state.is_empty() && files.are_missing();
        let origins = Origins::new(state, files, self.tenants);
        let rules = origins.start(if wait { None } else { Some(read?) }, store.seed())?;
        let every = self.snapshot.as_ref().map(|(_, every)| *every);
        let inner = Arc::new(Inner {
            backend: Backend::new(store, self.shared),
            rules: CurrentRules::new(rules),
            origins,
            refused: ArcSwapOption::empty(),
            refusals: AtomicU64::new(0),
            lines: Lines::default(),
            permits: AtomicU64::new(0),
            slot_secret: RandomState::new(),
            inline: InlineRegistry::new(self.max_inline_limits),
            scopes: Arc::default(),
            reservations: Book::new(self.max_reservations),
            defaults: self.defaults,
            snapshots: self.snapshot.map(|(path, _)| Snapshots::to(path)),
            closed: AtomicBool::new(false),
            system_clock,
        });
        keeper::start(&Arc::downgrade(&inner), self.watch, every).map_err(BuildError::Keeper)?;
        Ok(Limiter { _last_word: Arc::new(LastWord(Arc::clone(&inner))), inner })
    }
}
