//! Setting up a limiter.

use std::hash::RandomState;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use thiserror::Error;
use tidegate_core::{Clock, KeySeed};
use tidegate_stores::memory::SnapshotError;
#[cfg(feature = "redis")]
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_stores::{MemoryStore, MemoryStoreConfig, SystemClock};
use xxhash_rust::xxh3::xxh3_64;

use crate::inline_registry::InlineRegistry;
use crate::keeper;
use crate::limiter::{Inner, LastWord, Limiter};
use crate::line::Lines;
#[cfg(feature = "remote")]
use crate::remote::Remote;
use crate::reservation::{Book, USUAL_MOST};
use crate::rules::current::CurrentRules;
use crate::rules::limit_spec::Defaults;
use crate::rules::model::Domain;
use crate::rules::problem::Problems;
use crate::rules::source::Source;
use crate::rules::tree::RuleSet;
#[cfg(feature = "redis")]
use crate::shared::{Fallback, FallbackCounts, Shared};
use crate::snapshots::Snapshots;
use crate::switches::Switches;
use crate::tenants::TenantSource;
use crate::unnamed::ScopeNumbers;
use crate::warning;

/// Sets up a [`Limiter`].
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
    clock: Option<Arc<dyn Clock>>,
    snapshot: Option<(PathBuf, Duration)>,
    watch: bool,
    may_wait: bool,
    #[cfg(feature = "redis")]
    shared: Option<Shared>,
    #[cfg(feature = "redis")]
    redis_url: Option<String>,
    #[cfg(feature = "remote")]
    remote: Option<Remote>,
    key_secret: Option<String>,
    switches: Switches,
    tenants: Option<Arc<dyn TenantSource>>,
}

/// Why a limiter could not be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The rules have mistakes.
    #[error("{0}")]
    Rules(#[from] Problems),
    /// There is a snapshot, and it cannot be used.
    #[error("{0}")]
    Snapshot(#[from] SnapshotError),
    /// The thread that looks after the limiter could not be started.
    #[error("the limiter's keeper thread could not be started: {0}")]
    Keeper(std::io::Error),
    /// The address of Redis is none.
    #[cfg(feature = "redis")]
    #[error("{0}")]
    RedisUrl(#[from] tidegate_stores::redis::url::StoreUrlError),
    /// Nobody has looked for Redis yet.
    #[cfg(feature = "redis")]
    #[error("a limiter on redis(url) is built by connect().await, not by build()")]
    NotConnected,
    /// The remote service cannot be asked as told.
    #[cfg(feature = "remote")]
    #[error("{0}")]
    Remote(#[from] crate::remote::SettingsError),
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            domains: Vec::new(),
            default_domains: Vec::new(),
            paths: Vec::new(),
            defaults: Defaults::default(),
            max_keys: 10_000_000,
            max_reservations: USUAL_MOST,
            clock: None,
            snapshot: None,
            watch: true,
            may_wait: false,
            #[cfg(feature = "redis")]
            shared: None,
            #[cfg(feature = "redis")]
            redis_url: None,
            #[cfg(feature = "remote")]
            remote: None,
            key_secret: None,
            switches: Switches::default(),
            tenants: None,
        }
    }

    /// Keeps counters in memory. This is the default, and says so.
    pub fn memory(self) -> Self {
        self
    }

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
    #[cfg(feature = "redis")]
    pub fn redis(mut self, url: impl Into<String>) -> Self {
        self.redis_url = Some(url.into());
        self
    }

    /// What keys are made from, so that nobody who does not know it can find another's. All nodes that share
    /// a store must have the same.
    #[cfg(feature = "redis")]
    pub fn redis_secret(mut self, secret: impl Into<String>) -> Self {
        self.key_secret = Some(secret.into());
        self
    }

    /// As [`Builder::redis`], on a store that is set up already.
    ///
    /// All nodes must have the same `secret`: keys are made from it, so that nobody who does not know it
    /// can find another's.
    #[cfg(feature = "redis")]
    pub fn redis_store(mut self, store: RedisStore, fallback: Fallback, secret: &str) -> Self {
        self.shared = Some(Shared { store, fallback, counts: FallbackCounts::default() });
        self.key_secret = Some(secret.to_owned());
        self
    }

    /// Asks a service over HTTP. While it does not answer, [`Remote::fallback`] says what is done; rules
    /// that this limiter has itself then decide for their domains.
    ///
    /// ```no_run
    /// use tidegate::{Limiter, Remote, RemoteFallback};
    ///
    /// let limiter = Limiter::builder().remote("http://localhost:8080").build()?;
    /// let strict = Remote::new("http://localhost:8080").token("...").fallback(RemoteFallback::Deny);
    /// let limiter = Limiter::builder().remote(strict).build()?;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[cfg(feature = "remote")]
    pub fn remote(mut self, service: impl Into<Remote>) -> Self {
        self.remote = Some(service.into());
        self
    }

    /// How kill switches stand at the beginning.
    pub fn switches(mut self, switches: Switches) -> Self {
        self.switches = switches;
        self
    }

    /// Where tenants come from that have a tier or limits of their own. It is read whenever rules are
    /// loaded; what changes in between is told by [`Limiter::change_tenants`].
    pub fn tenants(mut self, tenants: Arc<dyn TenantSource>) -> Self {
        self.tenants = Some(tenants);
        self
    }

    /// Adds a domain built in code.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domains.push(domain);
        self
    }

    /// Adds a domain that is in force only while no other code, file or catalog defines one of its name.
    pub fn default_domain(mut self, domain: Domain) -> Self {
        self.default_domains.push(domain);
        self
    }

    /// Adds a rule file, or a folder of them (`*.yaml`, `*.yml`).
    pub fn rules(mut self, path: impl AsRef<Path>) -> Self {
        self.paths.push(path.as_ref().to_owned());
        self
    }

    /// Whether changed rule files take effect by themselves; they do unless told otherwise.
    pub fn watch(mut self, watch: bool) -> Self {
        self.watch = watch;
        self
    }

    /// Whether to begin without rules where their folder is still empty: every request passes until
    /// they come. Unless told so, an empty folder is a mistake.
    pub fn rules_may_come_later(mut self, may_wait: bool) -> Self {
        self.may_wait = may_wait;
        self
    }

    /// What applies where a rule does not say.
    pub fn defaults(mut self, defaults: Defaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// The most keys held at once; ten million unless told otherwise. At the bound a new key
    /// displaces the least used of its neighbours.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// The most reservations held at once in this process; a million unless told otherwise. At the bound
    /// no more can be made until some are settled or expire.
    pub fn max_reservations(mut self, max_reservations: usize) -> Self {
        self.max_reservations = max_reservations;
        self
    }

    /// Takes time from this clock, such as a [`tidegate_core::VirtualClock`] in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Goes on from the counters in this file if it exists, and writes them back every so often and
    /// when the last clone of the limiter is dropped.
    pub fn snapshot(mut self, path: impl AsRef<Path>, every: Duration) -> Self {
        self.snapshot = Some((path.as_ref().to_owned(), every));
        self
    }

    /// Whether somebody else is asked, which takes a while to answer.
    #[cfg(any(feature = "redis", feature = "remote"))]
    fn is_away(&self) -> bool {
        #[cfg(feature = "redis")]
        if self.shared.is_some() {
            return true;
        }
        #[cfg(feature = "remote")]
        if self.remote.is_some() {
            return true;
        }
        false
    }

    /// As [`Builder::build`], once Redis has been looked for: for a second at most, and then it is used as
    /// soon as it is there. Needs a tokio runtime, on which the store goes on looking.
    ///
    /// # Errors
    /// As [`Builder::build`], or if the address of Redis is none.
    #[cfg(feature = "redis")]
    pub async fn connect(mut self) -> Result<Limiter, BuildError> {
        if let Some(url) = self.redis_url.take() {
            let store = RedisStore::connect(RedisStoreConfig::new(url.parse()?)).await;
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

    /// Reads rules and counters, and starts the limiter.
    ///
    /// # Errors
    /// Every mistake in the rules, or what is wrong with the snapshot.
    pub fn build(self) -> Result<Limiter, BuildError> {
        warning::one_is_built();
        #[cfg(feature = "redis")]
        if self.redis_url.is_some() {
            return Err(BuildError::NotConnected);
        }
        #[cfg(any(feature = "redis", feature = "remote"))]
        let away = self.is_away();
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
        let mut source = Source::new(self.domains, self.paths, self.defaults);
        source.default_domains = self.default_domains;
        source.switches = self.switches;
        source.tenants = self.tenants;
        #[cfg(feature = "remote")]
        let scopes = self.remote.as_ref().map(|remote| ScopeNumbers::of_service(remote.url()));
        #[cfg(not(feature = "remote"))]
        let scopes = None;
        #[cfg(feature = "remote")]
        let remote = self.remote.map(Remote::open).transpose()?;
        let wait = self.may_wait && source.is_empty();
        let rules = if wait { RuleSet::empty(store.seed()) } else { source.load(store.seed(), 1)? };
        let every = self.snapshot.as_ref().map(|(_, every)| *every);
        let inner = Arc::new(Inner {
            store,
            rules: CurrentRules::new(rules),
            source: Mutex::new(source),
            refused: ArcSwapOption::empty(),
            refusals: AtomicU64::new(0),
            lines: Lines::default(),
            leases: AtomicU64::new(0),
            lease_secret: RandomState::new(),
            inline: InlineRegistry::default(),
            scopes: scopes.unwrap_or_default(),
            reservations: Book::new(self.max_reservations),
            defaults: self.defaults,
            snapshots: self.snapshot.map(|(path, _)| Snapshots::to(path)),
            closed: AtomicBool::new(false),
            system_clock,
            #[cfg(any(feature = "redis", feature = "remote"))]
            away,
            #[cfg(feature = "redis")]
            shared: self.shared,
            #[cfg(feature = "remote")]
            remote,
        });
        keeper::start(&Arc::downgrade(&inner), self.watch, every).map_err(BuildError::Keeper)?;
        Ok(Limiter { _last_word: Arc::new(LastWord(Arc::clone(&inner))), inner })
    }
}
