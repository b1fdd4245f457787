//! The shared store on Redis or Valkey.
//!
//! A request goes to a [`lane`], which collects it with others into a [`batch`]. The [`script`] settles a batch on
//! the server, and returns the time and the previous state of each counter. From these, [`replay`] repeats the batch
//! locally and so computes every verdict without more Lua code.
//!
//! # Layout
//!
//! - [`url`]: store addresses
//! - [`routes`], [`topology_refresh`], [`sentinel`]: which server holds which counters, and how changes are followed
//! - [`fan_out`]: requests whose counters are on one server or on several
//! - [`node`], [`connect`], [`breaker`], [`liveness_probe`]: one server, and whether requests are sent to it
//! - [`lane`], [`busy_poll`]: the queue from one thread to one server
//! - [`batch`], [`layout`], [`wire`], [`packer`]: turn requests into a call of the script
//! - [`script`]: the Lua script
//! - [`reply`], [`state`], [`replay`], [`conclude`]: turn the reply into verdicts
//! - [`denials`]: a cache of recent denials
//! - [`records`]: records stored beside the counters
//! - [`presence`]: counts the nodes that share the store
//! - [`checkup`]: checks whether a server is suitable for the store
//! - [`events`], [`latency`]: failures and durations, for metrics

mod batch;
mod breaker;
mod busy_poll;
mod checkup;
mod conclude;
mod connect;
mod denials;
mod events;
mod fan_out;
mod lane;
mod latency;
mod layout;
mod liveness_probe;
mod node;
mod packer;
mod presence;
mod records;
mod replay;
mod reply;
mod routes;
mod script;
mod sentinel;
mod state;
mod topology_refresh;
pub mod url;
mod wire;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use redis::aio::MultiplexedConnection;
use tidegate_core::{Clock, Micros};
use tokio::sync::Notify;

use self::batch::Operation;
use self::denials::Denials;
use self::events::Events;
use self::layout::Layout;
use self::node::Node;
use self::routes::Routes;
use self::url::{Host, StoreUrl, Topology};
use self::wire::CallBuilder;
use crate::SystemClock;
use crate::charge::Charge;
pub use breaker::Circuit;
pub use checkup::Finding;
pub use events::Failures;
pub use latency::{LATENCY_BOUNDS, Latencies};

/// The name reported as the server of partitions without one.
const NO_SERVER: &str = "none";

/// How long [`RedisStore::connect`] waits for the servers.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The settings of a [`RedisStore`].
#[derive(Clone)]
pub struct RedisStoreConfig {
    /// Address of the servers.
    pub url: StoreUrl,
    /// How long one settlement may take.
    pub deadline: Duration,
    /// The prefix of all key names.
    pub prefix: String,
    /// The number of partitions of the counters. All nodes must use the same value.
    pub partitions: u32,
    /// Maximum number of requests that wait for one server on one thread.
    pub max_waiting: usize,
    /// The longest time a denial is cached; zero disables the cache.
    pub remember_denials: Duration,
    /// How long a thread polls for a reply, and then for the next request, before it sleeps. It polls only while two
    /// of three arrive in time. Zero, the default, never polls, because the thread does not belong to the store.
    pub busy_poll: Duration,
    /// The number of nodes that share the store; `None` to count them.
    pub nodes: Option<u32>,
    /// A clock to use instead of the servers' own, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl RedisStoreConfig {
    /// Returns the default settings for a store at this address.
    pub fn new(url: StoreUrl) -> Self {
        Self {
            url,
            deadline: Duration::from_millis(15),
            prefix: "tidegate".to_owned(),
            partitions: 256,
            max_waiting: 10_000,
            remember_denials: Duration::from_secs(1),
            busy_poll: Duration::ZERO,
            nodes: None,
            clock: None,
        }
    }
}

/// A store of counters in Redis or Valkey. Cheap to clone: all clones are the same store.
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

struct Shared {
    url: StoreUrl,
    settings: RedisStoreConfig,
    routes: ArcSwap<Routes>,
    /// The clock of this machine.
    local: SystemClock,
    /// Microseconds by which the servers' clocks are ahead of this machine's, as last observed.
    ahead_us: AtomicI64,
    events: Events,
    /// Notified when the topology should be looked up again.
    refresh_requested: Arc<Notify>,
    denials: Denials,
    /// How many nodes share the store, as last counted.
    nodes: AtomicU32,
    /// The connection for counting nodes, and the term of the server in which it was made.
    presence: tokio::sync::Mutex<Option<(u64, MultiplexedConnection)>>,
    /// The state of the sentinels; empty without sentinels.
    sentinels: sentinel::Sentinels,
    /// Connections for records.
    records: records::Connections,
}

impl RedisStore {
    /// Connects to a store. Waits up to a second for the servers; servers that are found later are used from then on.
    /// Must be called in a tokio runtime, on which background tasks follow the servers.
    pub async fn connect(config: RedisStoreConfig) -> Self {
        let url = config.url.clone();
        let node = |host: &Host| Arc::new(Node::new(host.to_string(), host.clone()));
        let routes = match &url.topology {
            Topology::Single => Routes::single(node(&url.hosts[0]), config.partitions),
            Topology::Sharded => Routes::sharded(url.hosts.iter().map(node).collect(), config.partitions),
            Topology::Sentinel { name } => {
                let unknown = Host { name: String::new(), port: 0 };
                Routes::single(Arc::new(Node::new(name.clone(), unknown)), config.partitions)
            }
            Topology::Cluster => Routes::default(),
        };
        let shared = Arc::new(Shared {
            url,
            denials: Denials::new(config.remember_denials),
            nodes: AtomicU32::new(config.nodes.unwrap_or(1)),
            presence: tokio::sync::Mutex::default(),
            sentinels: sentinel::Sentinels::default(),
            records: records::Connections::default(),
            settings: config,
            routes: ArcSwap::from_pointee(routes),
            local: SystemClock::new(),
            ahead_us: AtomicI64::new(0),
            events: Events::default(),
            refresh_requested: Arc::default(),
        });
        if !matches!(tokio::time::timeout(FIRST_LOOK, topology_refresh::refresh(&shared)).await, Ok(true)) {
            tracing::warn!(store = %shared.url, "the store was not found yet; still looking");
            shared.refresh_topology();
        }
        let refresh_every = match &shared.url.topology {
            Topology::Sentinel { name } => {
                for sentinel in &shared.url.hosts {
                    tokio::spawn(sentinel::listen(Arc::downgrade(&shared), sentinel.clone(), name.clone()));
                }
                sentinel::ASK_EVERY
            }
            _ => topology_refresh::AT_LEAST_EVERY,
        };
        tokio::spawn(topology_refresh::keep_refreshing(
            Arc::downgrade(&shared),
            Arc::clone(&shared.refresh_requested),
            refresh_every,
        ));
        tokio::spawn(liveness_probe::keep_probing(Arc::downgrade(&shared)));
        if shared.settings.nodes.is_none() {
            let name = format!("{:016x}", RandomState::default().hash_one(""));
            tokio::spawn(presence::keep_registered(Arc::downgrade(&shared), name));
        }
        Self { shared }
    }

    /// Returns how many nodes share the store, this one included.
    pub fn nodes(&self) -> u32 {
        self.shared.nodes.load(Ordering::Relaxed)
    }

    /// Returns every server with the state of its breaker, and for how long it has been failing.
    pub fn circuits(&self) -> Vec<(String, Circuit, Option<Duration>)> {
        let routes = self.shared.routes.load();
        let state = |node: &Arc<Node>| (node.name.clone(), node.breaker.circuit(), node.breaker.open_for());
        // In a cluster that was not found yet, or whose slots are not all assigned, some partitions have no server.
        let lacking = routes.is_lacking().then(|| (NO_SERVER.to_owned(), Circuit::Open, None));
        routes.nodes.iter().map(state).chain(lacking).collect()
    }

    /// Returns the batch durations of each server.
    pub fn latencies(&self) -> Vec<Latencies> {
        let routes = self.shared.routes.load();
        routes.nodes.iter().map(|node| node.latency.read(&node.name)).collect()
    }

    /// Returns the number of failures of the servers, by kind.
    pub fn failures(&self) -> Failures {
        self.shared.events.counts()
    }

    /// Drops all cached denials, because the rules have changed.
    pub fn forget_denials(&self) {
        self.shared.denials.forget_all();
    }

    /// Drops the cached denials of these counters, because their limits have changed.
    pub fn forget_denials_of(&self, charges: &[Charge<'_>]) {
        self.shared.denials.forget(charges);
    }

    /// Returns how long the server of a charge has been failing.
    pub fn failing_for(&self, charge: &Charge<'_>) -> Duration {
        let routes = self.shared.routes.load();
        let route = routes.of(self.partition(charge));
        route.and_then(|route| route.node.breaker.open_for()).unwrap_or_default()
    }

    /// Refunds charges without waiting for the result.
    pub fn give_back_soon(&self, charges: &[Charge<'_>]) {
        self.shared.denials.forget(charges);
        for charge in charges {
            self.send_off(charge, Operation::GiveBack { taken_at: None });
        }
    }

    /// Releases a slot without waiting for the result. If the call is lost, the slot becomes free after its timeout.
    pub fn release_soon(&self, slot: &Charge<'_>) {
        self.shared.denials.forget(std::slice::from_ref(slot));
        self.send_off(slot, Operation::Release);
    }
}

impl Shared {
    /// Requests a refresh of the topology.
    fn refresh_topology(&self) {
        self.refresh_requested.notify_one();
    }

    /// Returns a builder of calls. With `with_source`, calls include the script, for a server that does not know it.
    fn call_builder(&self, with_source: bool) -> CallBuilder<'_> {
        let now = self.settings.clock.as_ref().map(|clock| clock.now());
        let server_time = now.unwrap_or_else(|| self.about());
        let by_partition = self.url.topology == Topology::Cluster;
        CallBuilder {
            layout: Layout { prefix: &self.settings.prefix, by_partition },
            now,
            server_time,
            with_source,
        }
    }

    /// Returns the approximate time of the servers.
    fn about(&self) -> Micros {
        Micros(self.local.now().0.saturating_add_signed(self.ahead_us.load(Ordering::Relaxed)))
    }

    /// Learns the clock offset of the servers from a time that one of them has returned.
    fn learn(&self, now: Micros) {
        self.ahead_us
            .store(now.0.cast_signed().wrapping_sub(self.local.now().0.cast_signed()), Ordering::Relaxed);
    }
}
