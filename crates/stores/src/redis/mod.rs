//! Redis and Valkey as the store that many nodes share.
//!
//! A request goes to a [`lane`], where it gathers with others into a [`batch`]. The [`script`] settles a
//! batch where the counters are, and answers the time and what each counter held; [`replay`] goes through
//! the batch once more from there, and so finds every verdict without another line of Lua.
//!
//! # Layout
//!
//! - [`url`]: where the servers are
//! - [`routes`], [`scout`], [`sentinel`]: which server has which counters, and finding out when that changes
//! - [`places`]: a request whose counters are on one server or several
//! - [`node`], [`connect`], [`lane`], [`breaker`]: one server, the way of one thread to it, and whether it is asked
//! - [`liveness`]: asking servers that nobody asks
//! - [`batch`], [`wire`], [`reply`], [`state`], [`replay`]: from requests to a call, and back to verdicts
//! - [`script`]: the Lua
//! - [`denials`]: what was denied a moment ago
//! - [`records`]: what is kept beside the counters
//! - [`presence`]: how many nodes share the store
//! - [`checkup`]: whether a server is fit for it
//! - [`events`], [`latency`]: what has happened, and how long it took

mod batch;
mod breaker;
mod checkup;
mod connect;
mod denials;
mod events;
mod lane;
mod latency;
mod liveness;
mod node;
mod places;
mod presence;
mod records;
mod replay;
mod reply;
mod routes;
mod scout;
mod script;
mod sentinel;
mod state;
pub mod url;
mod vigil;
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

use self::batch::Wish;
use self::denials::Denials;
use self::events::Events;
use self::node::Node;
use self::routes::Routes;
use self::url::{Host, StoreUrl, Topology};
use self::wire::Form;
use crate::SystemClock;
use crate::charge::Charge;
pub use breaker::Circuit;
pub use checkup::Finding;
pub use events::Failures;
pub use latency::{LATENCY_BOUNDS, Latencies};

/// What stands for the server of keys that have none.
const NO_SERVER: &str = "none";

/// How long a store is looked for before it is used all the same.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// How a store is set up.
#[derive(Clone)]
pub struct RedisStoreConfig {
    /// Where the servers are.
    pub url: StoreUrl,
    /// How long one settlement may take.
    pub deadline: Duration,
    /// What the names of all keys begin with.
    pub prefix: String,
    /// Into how many parts the counters are divided. All nodes must agree on it.
    pub parts: u32,
    /// How many requests may wait for one server on one thread.
    pub most_waiting: usize,
    /// For how long a denial is remembered at most; zero remembers none.
    pub remember_denials: Duration,
    /// For how long a thread looks for an answer, and after it for the next request, before it sleeps; only
    /// as long as two of three come in time. Zero, the usual: it is not the store's thread.
    pub busy_poll: Duration,
    /// How many nodes share the store, if it is not to be learned from them.
    pub nodes: Option<u32>,
    /// A clock to settle by instead of the servers' own: for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl RedisStoreConfig {
    /// The usual settings.
    pub fn new(url: StoreUrl) -> Self {
        Self {
            url,
            deadline: Duration::from_millis(15),
            prefix: "tidegate".to_owned(),
            parts: 256,
            most_waiting: 10_000,
            remember_denials: Duration::from_secs(1),
            busy_poll: Duration::ZERO,
            nodes: None,
            clock: None,
        }
    }
}

/// Counters in Redis or Valkey. Cheap to clone: all clones are the same store.
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

struct Shared {
    url: StoreUrl,
    settings: RedisStoreConfig,
    routes: ArcSwap<Routes>,
    /// This machine's clock.
    local: SystemClock,
    /// Microseconds by which the servers' clocks are ahead of this machine's, as last seen.
    ahead_us: AtomicI64,
    events: Events,
    called: Arc<Notify>,
    denials: Denials,
    /// How many nodes share the store, as last counted.
    nodes: AtomicU32,
    /// What nodes are counted over, and the term of the server it was made in.
    presence: tokio::sync::Mutex<Option<(u64, MultiplexedConnection)>>,
    /// What sentinels say, where there are any.
    sentinels: sentinel::Sentinels,
    /// What records go over.
    records: records::Connections,
}

impl RedisStore {
    /// A store on servers that are looked for now, and used as soon as they are there. Needs a tokio
    /// runtime, on which it keeps looking.
    pub async fn connect(config: RedisStoreConfig) -> Self {
        let url = config.url.clone();
        let node = |host: &Host| Arc::new(Node::new(host.to_string(), host.clone()));
        let routes = match &url.topology {
            Topology::Single => Routes::single(node(&url.hosts[0]), config.parts),
            Topology::Sharded => Routes::sharded(url.hosts.iter().map(node).collect(), config.parts),
            Topology::Sentinel { name } => {
                let unknown = Host { name: String::new(), port: 0 };
                Routes::single(Arc::new(Node::new(name.clone(), unknown)), config.parts)
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
            called: Arc::default(),
        });
        if !matches!(tokio::time::timeout(FIRST_LOOK, scout::look(&shared)).await, Ok(true)) {
            tracing::warn!(store = %shared.url, "the store was not found yet; looking on");
            shared.look_again();
        }
        let look_every = match &shared.url.topology {
            Topology::Sentinel { name } => {
                for sentinel in &shared.url.hosts {
                    tokio::spawn(sentinel::listen(Arc::downgrade(&shared), sentinel.clone(), name.clone()));
                }
                sentinel::ASK_EVERY
            }
            _ => scout::AT_LEAST_EVERY,
        };
        tokio::spawn(scout::scout(Arc::downgrade(&shared), Arc::clone(&shared.called), look_every));
        tokio::spawn(liveness::keep_asking(Arc::downgrade(&shared)));
        if shared.settings.nodes.is_none() {
            let name = format!("{:016x}", RandomState::default().hash_one(""));
            tokio::spawn(presence::be_present(Arc::downgrade(&shared), name));
        }
        Self { shared }
    }

    /// How many nodes share the store, this one included.
    pub fn nodes(&self) -> u32 {
        self.shared.nodes.load(Ordering::Relaxed)
    }

    /// Every server and whether it is asked, with how long it has not been.
    pub fn circuits(&self) -> Vec<(String, Circuit, Option<Duration>)> {
        let routes = self.shared.routes.load();
        let state = |node: &Arc<Node>| (node.name.clone(), node.breaker.circuit(), node.breaker.open_for());
        // Of a cluster that was not found yet, or lacks slots, some keys have no server at all.
        let lacking = routes.is_lacking().then(|| (NO_SERVER.to_owned(), Circuit::Open, None));
        routes.nodes.iter().map(state).chain(lacking).collect()
    }

    /// How long the batches to each server took.
    pub fn latencies(&self) -> Vec<Latencies> {
        let routes = self.shared.routes.load();
        routes.nodes.iter().map(|node| node.latency.read(&node.name)).collect()
    }

    /// How often the servers failed, by kind.
    pub fn failures(&self) -> Failures {
        self.shared.events.counts()
    }

    /// Forgets what was denied a moment ago: the rules have changed.
    pub fn forget_denials(&self) {
        self.shared.denials.forget_all();
    }

    /// Forgets what was denied a moment ago for these counters: their limits have changed.
    pub fn forget_denials_of(&self, charges: &[Charge<'_>]) {
        self.shared.denials.forget(charges);
    }

    /// How long the server of a charge has been failing.
    pub fn failing_for(&self, charge: &Charge<'_>) -> Duration {
        let routes = self.shared.routes.load();
        let route = routes.of(self.part(charge));
        route.and_then(|route| route.node.breaker.open_for()).unwrap_or_default()
    }

    /// Gives charges back without waiting for it.
    pub fn give_back_soon(&self, charges: &[Charge<'_>]) {
        self.shared.denials.forget(charges);
        for charge in charges {
            self.send_off(charge, Wish::GiveBack { taken_at: None });
        }
    }

    /// Returns a slot without waiting for it. If that is lost, it returns after its time-out.
    pub fn release_soon(&self, slot: &Charge<'_>) {
        self.shared.denials.forget(std::slice::from_ref(slot));
        self.send_off(slot, Wish::Release);
    }
}

impl Shared {
    /// Asks the scout to look around.
    fn look_again(&self) {
        self.called.notify_one();
    }

    /// How calls are put together now.
    fn form(&self, whole: bool) -> Form<'_> {
        let now = self.settings.clock.as_ref().map(|clock| clock.now());
        let about = now.unwrap_or_else(|| self.about());
        let apart = self.url.topology == Topology::Cluster;
        Form { prefix: &self.settings.prefix, now, about, whole, apart }
    }

    /// About what time it is for the servers.
    fn about(&self) -> Micros {
        Micros(self.local.now().0.saturating_add_signed(self.ahead_us.load(Ordering::Relaxed)))
    }

    /// A server has said what time it is.
    fn learn(&self, now: Micros) {
        self.ahead_us
            .store(now.0.cast_signed().wrapping_sub(self.local.now().0.cast_signed()), Ordering::Relaxed);
    }
}
