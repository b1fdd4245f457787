//! The typed settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_catalog::Retention;
use tidegate_middleware::{ClientIp, DenialBody};
use tidegate_stores::redis::url::StoreUrl;

use super::address::Listen;
use super::gather::{Sources, load};
use super::origin::{EffectiveSettings, Origin};
use super::secret::{Secret, redacted};
use crate::bounds::Bounds;
use crate::metrics::OtherNames;

/// All settings. [`docs/settings.md`](super::document) describes each.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `rules`: a rule file or a folder of them; `None` if all rules are in the catalog.
    pub rules: Option<PathBuf>,
    /// `reload`: whether changed rule files are reloaded.
    pub reload: bool,
    /// `data`: the folder for data that survives a restart.
    pub data: PathBuf,
    /// `store`: the store of the counters.
    pub store: Store,
    /// `catalog`: the location of the catalog.
    pub catalog: CatalogLocation,
    /// `catalog_listen`: how to be notified of changes in the catalog.
    pub catalog_listen: CatalogListen,
    /// `catalog_required`: whether a node that has never read the catalog is not ready.
    pub catalog_required: bool,
    /// `node`: the name of this node; empty for the name of the machine.
    pub node: String,
    /// `redis.*`
    pub redis: Redis,
    /// `fallback.*`
    pub fallback: tidegate::Fallback,
    /// `enforcement` and `switches`: which rules are enforced.
    pub switches: tidegate::Switches,
    /// `compat`: whose defaults apply; `defaults` has them already.
    pub compat: Compat,
    /// `workers`: threads that handle requests; `None` means one per core.
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
    /// `denial.*`: the body of denials; `None` for problem details.
    pub denial_body: Option<Arc<DenialBody>>,
    /// `memory.*`
    pub memory: Memory,
    /// `audit.*`
    pub audit: Audit,
    /// `metrics.recorder`
    pub recorder: bool,
    /// `warnings.*`
    pub warnings: Warnings,
    /// `history.*`
    pub history: Retention,
    /// `drain.*`
    pub drain: Drain,
    /// `metrics.*`
    pub other_names: OtherNames,
    /// `log.*`
    pub log: Log,
    /// `traces.*`; `None` without an endpoint.
    pub traces: Option<Traces>,
    pub(super) in_force: EffectiveSettings,
}

/// The store of the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// The memory of this process.
    Memory,
    /// Redis or Valkey, which nodes share.
    Redis(StoreUrl),
}

/// Where warnings about keys that are near their limits are sent.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    /// The address of the receiver.
    pub webhook: Option<String>,
    /// The key of the signature.
    pub secret: Secret,
    /// The authorities that vouch for the receiver; `None` for those of the system.
    pub ca: Option<PathBuf>,
}

/// The location of the catalog.
#[derive(Clone, PartialEq, Eq)]
pub enum CatalogLocation {
    /// `SQLite` in the data folder, for this node alone.
    Sqlite,
    /// `PostgreSQL` at this URL, for all nodes.
    Postgres(String),
}

/// How to be notified of changes in `PostgreSQL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogListen {
    /// Through the catalog's own URL, unless a pooler is in front of it.
    Auto,
    /// Without notifications.
    Off,
    /// Through another URL.
    At(CatalogLocation),
}

impl From<&CatalogListen> for tidegate_catalog::Listen {
    fn from(place: &CatalogListen) -> Self {
        match place {
            CatalogListen::Auto => Self::Auto,
            CatalogListen::Off | CatalogListen::At(CatalogLocation::Sqlite) => Self::Off,
            CatalogListen::At(CatalogLocation::Postgres(url)) => Self::At(url.clone()),
        }
    }
}

/// Prints the URL without its password.
impl std::fmt::Display for CatalogLocation {
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

impl std::fmt::Debug for CatalogLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// `audit.*`: the audit trail in the data folder.
#[derive(Clone, Copy, Debug)]
pub struct Audit {
    /// The maximum number of denials recorded per second.
    pub denials_per_second: u32,
    /// Whether records of denials have the values of the descriptor's entries.
    pub descriptors: bool,
    /// The maximum size of a file in bytes.
    pub segment_bytes: u64,
    /// The maximum size of all files in bytes.
    pub total_bytes: u64,
    /// How long files are kept.
    pub keep: Duration,
}

/// `redis.*`: the shared store.
#[derive(Clone)]
pub struct Redis {
    /// How long a decision may wait for the store.
    pub deadline: Duration,
    /// The prefix of all keys.
    pub prefix: String,
    /// The number of partitions of the counters.
    pub parts: u32,
    /// The secret that makes keys unpredictable.
    pub secret: Secret,
    /// The number of nodes; `None` if they count each other.
    pub nodes: Option<u32>,
    /// How long a denial is remembered.
    pub remember_denials: Duration,
    /// The number of requests that may wait for one server on one thread.
    pub max_waiting: usize,
    /// How long a thread polls for replies before it sleeps, unless CPU time is scarce.
    pub busy_poll: Duration,
}

/// Does not show the secret.
impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis")
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Whose defaults apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Those of Tidegate.
    None,
    /// Those of envoyproxy/ratelimit.
    EnvoyRatelimit,
}

/// The files of a listener's TLS certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The file with the certificate chain.
    pub cert: PathBuf,
    /// The file with its private key.
    pub key: PathBuf,
    /// The file with the authorities of client certificates; with it, every client needs a certificate.
    pub client_ca: Option<PathBuf>,
}

/// `grpc.*`: the listener for Envoy's protocol and `tidegate.v1`.
#[derive(Clone, Debug)]
pub struct Grpc {
    /// The address.
    pub listen: Listen,
    /// The files of TLS; `None` without TLS.
    pub tls: Option<Tls>,
    /// The age at which a connection is asked to close; `None` means never.
    pub max_connection_age: Option<Duration>,
    /// How long the requests of such a connection may take to finish.
    pub max_connection_age_grace: Duration,
    /// How often a silent connection is pinged; `None` means never.
    pub keepalive_interval: Option<Duration>,
    /// How long a client may take to respond to a ping.
    pub keepalive_timeout: Duration,
    /// Requests at once on one connection.
    pub max_streams: u32,
    /// Whether calls other than health need a token.
    pub tokens: bool,
}

/// `http.*`: the listener for the HTTP API.
#[derive(Clone, Debug)]
pub struct Http {
    /// The address.
    pub listen: Listen,
    /// The files of TLS; `None` without TLS.
    pub tls: Option<Tls>,
    /// How long the headers of a request may take; also for the admin listener.
    pub header_timeout: Duration,
    /// How long a connection may be without a request; `None` means forever. Also for the admin listener.
    pub idle_timeout: Option<Duration>,
    /// Whether requests for decisions need a token.
    pub tokens: bool,
    /// Finds the client of a request that came through proxies.
    pub client_ip: ClientIp,
    /// Whether pages of other sites may send requests from their visitors' browsers.
    pub cross_site: bool,
}

/// `admin.*`: the listener for metrics and administration.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The address; never [`Listen::Off`].
    pub listen: Listen,
    /// The files of TLS; `None` without TLS.
    pub tls: Option<Tls>,
    /// The file with a token of the role admin.
    pub token_file: Option<PathBuf>,
    /// Allowed host names besides `localhost` and IP addresses; `*` is any, `*.x` is every name below `x`.
    pub allowed_hosts: Vec<String>,
}

/// `connections.*`: the connections of each listener.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// The maximum number of connections.
    pub max: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// The mode of Unix sockets.
    pub socket_mode: u32,
}

/// `headers.*`: the headers of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting, independent of the others")]
pub struct Headers {
    /// `RateLimit` and `RateLimit-Policy` of the IETF draft.
    pub ratelimit: bool,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset` of draft 6.
    pub draft06: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: bool,
    /// Whether `RateLimit` has a partition key (`pk`).
    pub partition_key: bool,
    /// Whether gRPC responses have these headers in `response_headers_to_add`.
    pub rls: bool,
}

/// `memory.*`: the bound on the memory of the process, and the embedded store.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes that the process may use; 0 means a share of the system's memory.
    pub max_bytes: u64,
    /// The maximum number of counters.
    pub max_keys: usize,
    /// How often counters are written to the data folder; `None` means only when the service stops.
    pub snapshot_every: Option<Duration>,
}

/// `drain.*`: how the service stops.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// How long the service is not ready before it stops accepting.
    pub delay: Duration,
    /// How long accepted requests may take to finish.
    pub grace: Duration,
}

/// `log.*`
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// The format of lines.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Human-readable on a terminal, JSON elsewhere.
    Auto,
    /// Human-readable.
    Human,
    /// JSON.
    Json,
}

/// `traces.*`
#[derive(Clone)]
pub struct Traces {
    /// The OTLP gRPC collector.
    pub endpoint: String,
    /// How many of a million requests are traced if the caller does not decide that.
    pub sample_ppm: u32,
}

/// Shows the URL without its password.
impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces")
            .field("endpoint", &redacted(&self.endpoint))
            .field("sample_ppm", &self.sample_ppm)
            .finish()
    }
}

impl Settings {
    /// Returns every setting with its value and origin, in the order of the table.
    pub fn in_force(&self) -> &EffectiveSettings {
        &self.in_force
    }

    /// Returns whether no rules were named, and none are at the default path. The service then starts with the built-in
    /// rules; a named path that does not exist is a mistake.
    pub fn has_built_in_rules(&self) -> bool {
        let named = self.in_force.find("rules").is_some_and(|held| held.origin != Origin::Default);
        !named && self.rules.as_ref().is_some_and(|path| !path.exists())
    }
}

/// The defaults of the table, without the environment.
impl Default for Settings {
    fn default() -> Self {
        // A test parses every default.
        load(&Sources::default()).unwrap_or_else(|problems| unreachable!("{problems}"))
    }
}
