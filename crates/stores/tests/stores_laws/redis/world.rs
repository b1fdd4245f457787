//! Stores on real servers, with the time in hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_core::{Clock, Key, Micros, VirtualClock};
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_testkit::redis::{Cluster, RedisServer, SentinelTrio, Setup, sharded_url};
use tokio::runtime::{EnterGuard, Runtime};

use crate::conformance::World;
use crate::world::SEED;

/// Lanes are driven here, whichever thread a test runs on.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
});

static SINGLE: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static VALKEY: LazyLock<RedisServer> = LazyLock::new(|| Setup::valkey().start());
static SENTINEL: LazyLock<SentinelTrio> = LazyLock::new(|| Setup::redis().start_sentinel());
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Setup::redis().start_cluster());
static SHARDS: LazyLock<Vec<RedisServer>> = LazyLock::new(|| RedisServer::start_many(&Setup::redis(), 3));

/// A store whose keys nobody else uses.
pub(crate) struct RedisWorld {
    clock: VirtualClock,
    store: RedisStore,
    _entered: EnterGuard<'static>,
}

impl RedisWorld {
    pub(crate) fn single() -> Self {
        Self::on(&SINGLE.url())
    }

    pub(crate) fn valkey() -> Self {
        Self::on(&VALKEY.url())
    }

    pub(crate) fn sentinel() -> Self {
        Self::on(&SENTINEL.url())
    }

    pub(crate) fn cluster() -> Self {
        Self::on(&CLUSTER.url())
    }

    pub(crate) fn sharded() -> Self {
        Self::on(&sharded_url(&SHARDS))
    }

    pub(crate) fn on(url: &str) -> Self {
        let entered = RUNTIME.enter();
        let clock = VirtualClock::new();
        clock.advance_us(3_141_592);
        let config = RedisStoreConfig { clock: Some(Arc::new(clock.clone())), ..config(url) };
        Self { store: RUNTIME.block_on(RedisStore::connect(config)), clock, _entered: entered }
    }
}

/// The address of three shards that stores may share, and the servers.
pub(crate) fn shards() -> (String, Vec<&'static RedisServer>) {
    (sharded_url(&SHARDS), SHARDS.iter().collect())
}

/// The address of a cluster that stores may share, and the servers.
pub(crate) fn cluster() -> (String, Vec<&'static RedisServer>) {
    (CLUSTER.url(), CLUSTER.nodes().iter().collect())
}

/// Patient, because these laws are not about time; with keys of its own.
pub(crate) fn config(url: &str) -> RedisStoreConfig {
    static WORLDS: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("world{}", WORLDS.fetch_add(1, Ordering::Relaxed));
    let url = url.parse().expect("a store's address");
    RedisStoreConfig {
        prefix,
        deadline: Duration::from_secs(20),
        remember_denials: Duration::ZERO,
        nodes: Some(1),
        ..RedisStoreConfig::new(url)
    }
}

impl World for RedisWorld {
    type Store = RedisStore;

    const CARRIES_WINDOWS: bool = false;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    fn now(&self) -> Micros {
        self.clock.now()
    }

    fn set_now(&self, now: Micros) {
        self.clock.set(now);
    }

    fn key(&self, home: &str, name: &str) -> Key {
        SEED.text(home).of_limit(SEED.texts([home, name]).mark)
    }
}
