//! Redis and Valkey as the store that many nodes share.
//!
//! A request goes to a [`lane`], where it gathers with others into a [`batch`]. The [`script`] settles a
//! batch where the counters are, and answers the time and what each counter held; [`replay`] goes through
//! the batch once more from there, and so finds every verdict without another line of Lua.
//!
//! # Layout
//!
//! - [`url`]: where the servers are
//! - [`routes`], [`scout`]: which server has which counters, and finding out when that changes
//! - [`node`], [`lane`], [`breaker`]: one server, the way of one thread to it, and whether it is asked
//! - [`batch`], [`wire`], [`reply`], [`state`], [`replay`]: from requests to a call, and back to verdicts
//! - [`script`]: the Lua
//! - [`denials`]: what was denied a moment ago
//! - [`presence`]: how many nodes share the store
//! - [`checkup`]: whether a server is fit for it
//! - [`events`]: what has happened

mod batch;
mod breaker;
mod checkup;
mod denials;
mod events;
mod lane;
mod node;
mod presence;
mod replay;
mod reply;
mod routes;
mod scout;
mod script;
mod state;
pub mod url;
mod wire;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates,
};
use smallvec::SmallVec;
use tidegate_core::{Algorithm, Clock, Micros, Outcome, Verdict};
use tokio::sync::{Notify, oneshot};

use self::batch::{Answer, SettledPart, Wish};
use self::denials::Denials;
use self::events::Events;
use self::lane::Refusal;
use self::node::{Node, unreachable};
use self::routes::{Route, Routes};
use self::url::{Host, StoreUrl, Topology};
use self::wire::Form;
use crate::Store;
use crate::charge::{Charge, Force, Intent, Verdicts, blocked, blocked_by};
use crate::error::StoreError;
pub use breaker::Circuit;
pub use checkup::Finding;
pub use events::Failures;

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
    /// Microseconds by which the servers' clocks are ahead of this machine's, as last seen.
    ahead_us: AtomicI64,
    events: Events,
    called: Arc<Notify>,
    denials: Denials,
    /// How many nodes share the store, as last counted.
    nodes: AtomicU32,
    /// What nodes are counted over.
    presence: tokio::sync::Mutex<Option<MultiplexedConnection>>,
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
            settings: config,
            routes: ArcSwap::from_pointee(routes),
            ahead_us: AtomicI64::new(0),
            events: Events::default(),
            called: Arc::default(),
        });
        if !matches!(tokio::time::timeout(FIRST_LOOK, scout::look(&shared)).await, Ok(true)) {
            tracing::warn!(store = %shared.url, "the store was not found yet; looking on");
            shared.look_again();
        }
        tokio::spawn(scout::scout(Arc::downgrade(&shared), Arc::clone(&shared.called)));
        if shared.settings.nodes.is_none() {
            let name = format!("{:016x}", RandomState::default().hash_one(local_us()));
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
        routes.nodes.iter().map(state).collect()
    }

    /// How often the servers failed, by kind.
    pub fn failures(&self) -> Failures {
        self.shared.events.counts()
    }

    /// Forgets what was denied a moment ago: the rules have changed.
    pub fn forget_denials(&self) {
        self.shared.denials.forget_all();
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

    fn send_off(&self, charge: &Charge<'_>, wish: Wish) {
        let routes = self.shared.routes.load();
        let sent = routes.of(self.part(charge)).map(|route| self.send(route, &[*charge], wish));
        if !matches!(sent, Some(Ok(_))) {
            self.shared.events.lost_refunds.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn part(&self, charge: &Charge<'_>) -> u32 {
        (charge.part % u64::from(self.shared.settings.parts)) as u32
    }

    /// Sends charges that go to one place on their way.
    fn send(
        &self,
        route: Route<'_>,
        charges: &[Charge<'_>],
        wish: Wish,
    ) -> Result<oneshot::Receiver<Result<Answer, StoreError>>, StoreError> {
        if !route.node.breaker.admits() {
            return Err(StoreError::Open);
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::Unreachable("there is no tokio runtime here".into()));
        }
        let (waiter, answer) = oneshot::channel();
        let most = self.shared.settings.most_waiting;
        let lane = route.node.lane(&self.shared);
        let waiter = match lane.push(most, &self.shared, route.group, charges, wish, Some(waiter)) {
            Ok(()) => return Ok(answer),
            Err(Refusal::Full) => {
                self.shared.events.failed(route.node, &StoreError::Full);
                return Err(StoreError::Full);
            }
            Err(Refusal::Closed(waiter)) => waiter,
        };
        let lane = route.node.new_lane(&self.shared);
        match lane.push(most, &self.shared, route.group, charges, wish, waiter) {
            Ok(()) => Ok(answer),
            Err(_) => Err(StoreError::Full),
        }
    }

    /// Sends charges to wherever they go, and waits for all of it. Answers come with the numbers of the
    /// charges they are about.
    async fn ask(&self, charges: &[Charge<'_>], wish: Wish) -> Vec<(Numbers, Result<Answer, StoreError>)> {
        let mut sent = SmallVec::<[(Numbers, _); 1]>::new();
        {
            let routes = self.shared.routes.load();
            for (route, numbers) in self.split(&routes, charges) {
                let answer = match route {
                    None => Err(StoreError::Unreachable("its keys are on no server just now".into())),
                    Some(route) if numbers.len() == charges.len() => self.send(route, charges, wish),
                    Some(route) => {
                        let wish =
                            if let Wish::Settle(intent) = wish { Wish::SettlePart(intent) } else { wish };
                        let some: SmallVec<[Charge<'_>; 4]> =
                            numbers.iter().map(|number| apart(charges[*number])).collect();
                        self.send(route, &some, wish)
                    }
                };
                sent.push((numbers, answer));
            }
        }
        let mut answers = Vec::with_capacity(sent.len());
        for (numbers, answer) in sent {
            let answer = match answer {
                Ok(answer) => answer
                    .await
                    .unwrap_or_else(|_| Err(StoreError::Unreachable("its runtime has ended".into()))),
                Err(error) => Err(error),
            };
            answers.push((numbers, answer));
        }
        answers
    }

    /// Charges by where they go.
    fn split<'r>(
        &self,
        routes: &'r Routes,
        charges: &[Charge<'_>],
    ) -> SmallVec<[(Option<Route<'r>>, Numbers); 1]> {
        let mut places: SmallVec<[(Option<Route<'r>>, Numbers); 1]> = SmallVec::new();
        for (number, charge) in charges.iter().enumerate() {
            let route = routes.of(self.part(charge));
            match places.iter_mut().find(|(place, _)| same_place(place.as_ref(), route.as_ref())) {
                Some((_, numbers)) => numbers.push(number),
                None => places.push((route, SmallVec::from_slice(&[number]))),
            }
        }
        places
    }

    /// Gives back, in the background, what one server has taken of a request that another has denied.
    fn undo(&self, charges: &[Charge<'_>], taken: &[(Numbers, SettledPart)]) {
        for (numbers, part) in taken {
            for (number, verdict) in numbers.iter().zip(&part.verdicts) {
                let charge = charges[*number];
                if charge.cost == 0 || charge.count_denied || !verdict.allowed() {
                    continue;
                }
                let wish = match charge.limit.algorithm() {
                    Algorithm::Concurrency => Wish::Release,
                    _ => Wish::GiveBack { taken_at: Some(part.now) },
                };
                self.send_off(&charge, wish);
            }
        }
    }

    /// Settles charges of several places: each takes all of its own or none, and if one denies what is
    /// enforced, the others get theirs back.
    fn join(
        &self,
        charges: &[Charge<'_>],
        intent: Intent,
        answers: Vec<(Numbers, Result<Answer, StoreError>)>,
    ) -> Result<Verdicts, StoreError> {
        let nothing = Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 };
        let mut verdicts = Verdicts::from_elem(nothing, charges.len());
        let (mut parts, mut failed) = (Vec::new(), None);
        for (numbers, answer) in answers {
            match answer {
                Ok(Answer::Part(part)) => {
                    for (number, verdict) in numbers.iter().zip(&part.verdicts) {
                        verdicts[*number] = *verdict;
                    }
                    parts.push((numbers, part));
                }
                Ok(_) => failed = Some(StoreError::Garbled),
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() && !blocked(charges, &verdicts) {
            return Ok(verdicts);
        }
        // A part that was denied itself has taken nothing, and says so.
        parts.retain(|(numbers, part)| {
            !blocked_by(numbers.iter().map(|number| apart(charges[*number]).force), &part.verdicts)
        });
        if intent == Intent::Take {
            self.undo(charges, &parts);
        }
        for (numbers, part) in &parts {
            for (number, before) in numbers.iter().zip(&part.before) {
                if !charges[*number].count_denied {
                    verdicts[*number] = Verdict { outcome: verdicts[*number].outcome, ..*before };
                }
            }
        }
        failed.map_or(Ok(verdicts), Err)
    }
}

type Numbers = SmallVec<[usize; 4]>;

/// A charge as part of a request that is settled in several places: whether all quotas are denied is not
/// known in any of them.
fn apart(charge: Charge<'_>) -> Charge<'_> {
    let force = if charge.force == Force::Quota { Force::Shadow } else { charge.force };
    Charge { force, ..charge }
}

fn same_place(one: Option<&Route<'_>>, two: Option<&Route<'_>>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => Arc::ptr_eq(one.node, two.node) && one.group == two.group,
        (None, None) => true,
        _ => false,
    }
}

impl Store for RedisStore {
    async fn settle(&self, charges: &[Charge<'_>], intent: Intent) -> Result<Verdicts, StoreError> {
        if charges.is_empty() {
            return Ok(Verdicts::new());
        }
        if intent == Intent::Take
            && let Some(verdicts) = self.shared.denials.recall(charges)
        {
            return Ok(verdicts);
        }
        let mut answers = self.ask(charges, Wish::Settle(intent)).await;
        let verdicts = if answers.len() > 1 {
            self.join(charges, intent, answers)?
        } else {
            match answers.pop() {
                Some((_, Ok(Answer::Settled(verdicts)))) => verdicts,
                Some((_, Err(error))) => return Err(error),
                _ => return Err(StoreError::Garbled),
            }
        };
        if intent == Intent::Take && blocked(charges, &verdicts) {
            self.shared.denials.remember(charges, &verdicts);
        }
        Ok(verdicts)
    }

    async fn give_back(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.shared.denials.forget(charges);
        let answers = self.ask(charges, Wish::GiveBack { taken_at: None }).await;
        self.shared.denials.forget(charges);
        answers.into_iter().try_for_each(|(_, answer)| answer.map(|_| ()))
    }

    async fn renew(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.slot(slot, Wish::Renew).await
    }

    async fn release(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        self.shared.denials.forget(std::slice::from_ref(slot));
        self.slot(slot, Wish::Release).await
    }
}

impl RedisStore {
    async fn slot(&self, slot: &Charge<'_>, wish: Wish) -> Result<bool, StoreError> {
        match self.ask(std::slice::from_ref(slot), wish).await.pop() {
            Some((_, Ok(Answer::Slot(held)))) => Ok(held),
            Some((_, Err(error))) => Err(error),
            _ => Err(StoreError::Garbled),
        }
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
        Form { prefix: &self.settings.prefix, now, about: now.unwrap_or_else(|| self.about()), whole }
    }

    /// About what time it is for the servers.
    fn about(&self) -> Micros {
        Micros(local_us().saturating_add_signed(self.ahead_us.load(Ordering::Relaxed)))
    }

    /// A server has said what time it is.
    fn learn(&self, now: Micros) {
        self.ahead_us.store(now.0.cast_signed().wrapping_sub(local_us().cast_signed()), Ordering::Relaxed);
    }

    async fn connect(&self, host: &Host) -> Result<MultiplexedConnection, StoreError> {
        if host.port == 0 {
            return Err(StoreError::Unreachable("no sentinel has named the primary yet".into()));
        }
        let password = match &self.url.password_file {
            None => self.url.password.clone(),
            Some(path) => {
                let unreadable =
                    |error| StoreError::Unreachable(format!("{}: {error}", path.display()).into());
                Some(std::fs::read_to_string(path).map_err(unreadable)?.trim_end().to_owned())
            }
        };
        let mut login =
            RedisConnectionInfo::default().set_db(self.url.db).set_protocol(ProtocolVersion::RESP2);
        if let Some(username) = &self.url.username {
            login = login.set_username(username);
        }
        if let Some(password) = password {
            login = login.set_password(password);
        }
        self.open(host, login).await
    }

    /// Sentinels have no databases, and often no password.
    async fn connect_sentinel(&self, host: &Host) -> Result<MultiplexedConnection, StoreError> {
        self.open(host, RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2)).await
    }

    async fn open(
        &self,
        host: &Host,
        login: RedisConnectionInfo,
    ) -> Result<MultiplexedConnection, StoreError> {
        let Host { name, port } = host.clone();
        let address = if self.url.tls {
            ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(name, port)
        };
        // Without this, small calls wait for the answers to those before.
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let login = login.set_skip_set_lib_name();
        let info = address.into_connection_info().map_err(unreachable)?;
        let info = info.set_tcp_settings(tcp).set_redis_settings(login);
        let client = match &self.url.ca {
            Some(ca) if self.url.tls => {
                let unreadable = |error| StoreError::Unreachable(format!("{}: {error}", ca.display()).into());
                let root_cert = Some(std::fs::read(ca).map_err(unreadable)?);
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(info),
        };
        // Deadlines are the lanes' business.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = client.map_err(unreachable)?;
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(unreachable)
    }
}

fn local_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}
