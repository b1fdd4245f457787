//! The settings in force, as the service uses them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_catalog::Retention;
use tidegate_middleware::{ClientIp, DenialBody};
use tidegate_stores::redis::url::StoreUrl;

use super::address::Listen;
use super::gather::{Sources, load};
use super::origin::{InForce, Origin};
use super::secret::{Secret, redacted};
use crate::bounds::Bounds;

/// Every setting, checked. [`docs/settings.md`](super::document) says what each does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `rules`: a rule file or a folder of them; `None` if all rules are in the catalog.
    pub rules: Option<PathBuf>,
    /// `reload`: whether changed rule files take effect by themselves.
    pub reload: bool,
    /// `data`: the folder for what outlives a restart.
    pub data: PathBuf,
    /// `store`: where counters live.
    pub store: Store,
    /// `catalog`: where tenants and the like live.
    pub catalog: CatalogPlace,
    /// `catalog_listen`: how to hear of changes in it.
    pub catalog_listen: ListenPlace,
    /// `catalog_required`: whether a node that never knew it is not ready.
    pub catalog_required: bool,
    /// `node`: what this node is called; empty for the machine's name.
    pub node: String,
    /// `redis.*`
    pub redis: Redis,
    /// `fallback.*`
    pub fallback: tidegate::Fallback,
    /// `enforcement` and `switches`: which rules are enforced.
    pub switches: tidegate::Switches,
    /// `compat`: whose ways of counting are the default; `defaults` has them already.
    pub compat: Compat,
    /// `workers`: threads that answer requests; `None` is one per core.
    pub workers: Option<usize>,
    /// `defaults.*`
    pub defaults: tidegate::Defaults,
    /// `grpc.*`
    pub grpc: Grpc,
    /// `http.*`
    pub http: Http,
    /// `admin.*`
    pub admin: Admin,
    /// `connections.*`
    pub connections: Connections,
    /// `bounds.*`, except `bounds.header_bytes`.
    pub bounds: Bounds,
    /// `bounds.header_bytes`: bytes of one request's headers.
    pub header_bytes: usize,
    /// `headers.*`
    pub headers: Headers,
    /// `denial.*`: the body of denials; `None` for the problem.
    pub denial_body: Option<Arc<DenialBody>>,
    /// `memory.*`
    pub memory: Memory,
    /// `audit.*`
    pub audit: Audit,
    /// `history.*`
    pub history: Retention,
    /// `drain.*`
    pub drain: Drain,
    /// `log.*`
    pub log: Log,
    /// `traces.*`; `None` if there is no endpoint.
    pub traces: Option<Traces>,
    pub(super) in_force: InForce,
}

/// Where counters live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// In this process.
    Memory,
    /// In Redis or Valkey, shared with other nodes.
    Redis(StoreUrl),
}

/// Where tenants, rule sets, switches, tokens and changes are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum CatalogPlace {
    /// In the data folder, for this node alone.
    Sqlite,
    /// In `PostgreSQL`, for all nodes.
    Postgres(String),
}

/// How to hear of changes in `PostgreSQL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenPlace {
    /// Where the catalog is, unless a pooler there hands connections around.
    Auto,
    /// Not at all.
    Off,
    /// There.
    At(CatalogPlace),
}

impl From<&ListenPlace> for tidegate_catalog::Listen {
    fn from(place: &ListenPlace) -> Self {
        match place {
            ListenPlace::Auto => Self::Auto,
            ListenPlace::Off | ListenPlace::At(CatalogPlace::Sqlite) => Self::Off,
            ListenPlace::At(CatalogPlace::Postgres(url)) => Self::At(url.clone()),
        }
    }
}

/// Without the password that may be in it.
impl std::fmt::Display for CatalogPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Postgres(url) = self else { return f.write_str("sqlite") };
        let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
        let (before, behind) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        write!(f, "{scheme}://")?;
        if let Some(before) = before {
            let (user, password) = before.split_once(':').map_or((before, ""), |(user, _)| (user, ":***"));
            write!(f, "{user}{password}@")?;
        }
        let hidden = behind.split('&').map(|part| match part.split_once("password=") {
            Some((before, _)) => format!("{before}password=***"),
            None => part.to_owned(),
        });
        f.write_str(&hidden.collect::<Vec<_>>().join("&"))
    }
}

impl std::fmt::Debug for CatalogPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// `audit.*`: the trail in the data folder.
#[derive(Clone, Copy, Debug)]
pub struct Audit {
    /// Denials that are written down.
    pub denials_per_second: u32,
    /// Whether with the values of their entries.
    pub descriptors: bool,
    /// How long a file grows.
    pub segment_bytes: u64,
    /// How long all of them may be.
    pub total_bytes: u64,
    /// For how long they are kept.
    pub keep: Duration,
}

/// `redis.*`: the store that nodes share.
#[derive(Clone)]
pub struct Redis {
    /// How long a settlement may take.
    pub deadline: Duration,
    /// What the names of all keys begin with.
    pub prefix: String,
    /// Into how many parts counters are divided.
    pub parts: u32,
    /// What keys are made unguessable with.
    pub secret: Secret,
    /// How many nodes there are; `None` if they count each other.
    pub nodes: Option<u32>,
    /// For how long a denial is remembered.
    pub remember_denials: Duration,
    /// Requests that may wait for one server on one thread.
    pub max_waiting: usize,
    /// For how long a thread looks for answers before it sleeps, if the system does not ration CPU time.
    pub busy_poll: Duration,
}

/// Without the secret.
impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis")
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Whose ways of counting are the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Tidegate's own.
    None,
    /// Those of envoyproxy/ratelimit.
    EnvoyRatelimit,
}

/// The files of a listener that speaks TLS. They are not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates; with it a client needs one.
    pub client_ca: Option<PathBuf>,
}

/// `grpc.*`: the listener for Envoy's protocol and `tidegate.v1`.
#[derive(Clone, Debug)]
pub struct Grpc {
    /// Where it listens.
    pub listen: Listen,
    /// How it speaks TLS, if it does.
    pub tls: Option<Tls>,
    /// When a connection is asked to go; `None` is never.
    pub max_connection_age: Option<Duration>,
    /// How long what runs on such a connection may take to finish.
    pub max_connection_age_grace: Duration,
    /// How often a silent connection is pinged; `None` is never.
    pub keepalive_interval: Option<Duration>,
    /// When a connection that does not answer a ping is closed.
    pub keepalive_timeout: Duration,
    /// Requests at once on one connection.
    pub max_streams: u32,
    /// Whether calls other than health need a token.
    pub tokens: bool,
}

/// `http.*`: the listener for the HTTP API.
#[derive(Clone, Debug)]
pub struct Http {
    /// Where it listens.
    pub listen: Listen,
    /// How it speaks TLS, if it does.
    pub tls: Option<Tls>,
    /// How long a request's headers may take; for the admin listener too.
    pub header_timeout: Duration,
    /// How long a kept connection may be without a request; `None` is for ever. For the admin
    /// listener too.
    pub idle_timeout: Option<Duration>,
    /// Whether asking for decisions needs a token.
    pub tokens: bool,
    /// How to tell who asked a proxy.
    pub client_ip: ClientIp,
    /// Whether pages of other sites may post here from their visitors' browsers.
    pub cross_site: bool,
}

/// `admin.*`: the listener for metrics and administration.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where it listens; never [`Listen::Off`].
    pub listen: Listen,
    /// How it speaks TLS, if it does.
    pub tls: Option<Tls>,
    /// File with an administrator's token.
    pub token_file: Option<PathBuf>,
    /// Names that it answers to besides `localhost` and addresses; `*` is any, `*.x` all below `x`.
    pub allowed_hosts: Vec<String>,
}

/// `connections.*`: of each listener.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Connections at once.
    pub max: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// The mode of Unix sockets.
    pub socket_mode: u32,
}

/// `headers.*`: which headers answers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting, independent of the others")]
pub struct Headers {
    /// `RateLimit` and `RateLimit-Policy` of the IETF draft.
    pub ratelimit: bool,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset` of draft 6.
    pub draft06: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: bool,
    /// Whether `RateLimit` has a partition key.
    pub partition_key: bool,
    /// Whether gRPC answers bring them along in `response_headers_to_add`.
    pub rls: bool,
}

/// `memory.*`: what the process may use, and the embedded store.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes that the process may use; 0 is what the system leaves it.
    pub max_bytes: u64,
    /// Counters at once.
    pub max_keys: usize,
    /// How often they are written to the data folder; `None` is only when the service stops.
    pub snapshot_every: Option<Duration>,
}

/// `drain.*`: how the service stops.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// From not being ready to not accepting.
    pub delay: Duration,
    /// How long accepted requests may take to finish.
    pub grace: Duration,
}

/// `log.*`
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Human on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Human,
    /// For machines.
    Json,
}

/// `traces.*`
#[derive(Clone)]
pub struct Traces {
    /// The OTLP gRPC collector.
    pub endpoint: String,
    /// Of a million requests, how many are traced where the caller does not say.
    pub sample_ppm: u32,
}

/// Without the password that may be in the address.
impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces")
            .field("endpoint", &redacted(&self.endpoint))
            .field("sample_ppm", &self.sample_ppm)
            .finish()
    }
}

impl Settings {
    /// Every setting with its value and origin, in the order of the table.
    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Whether nobody named rules, and none are at the default path. The service then starts with the rules that
    /// are built in; a path that somebody named and that is missing is a mistake.
    pub fn has_built_in_rules(&self) -> bool {
        let named = self.in_force.find("rules").is_some_and(|held| held.origin != Origin::Default);
        !named && self.rules.as_ref().is_some_and(|path| !path.exists())
    }
}

/// The defaults of the table, whatever the environment says.
impl Default for Settings {
    fn default() -> Self {
        // A test reads every default.
        load(&Sources::default()).unwrap_or_else(|problems| unreachable!("{problems}"))
    }
}
