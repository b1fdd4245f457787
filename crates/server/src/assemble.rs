//! What a service is made of, before anybody can reach it.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Domain, Limiter};
use tidegate_audit::{FileSink, Trail};
use tidegate_middleware::{Headers, Renderer};
use tidegate_stores::SystemClock;
use tidegate_stores::redis::url::StoreUrl;
use tidegate_stores::redis::{Finding, RedisStore, RedisStoreConfig};
use tonic_health::server::HealthReporter;

use crate::access::{Book, own};
use crate::admin::browser::AllowedHosts;
use crate::admin::{AdminApi, Limits, Load};
use crate::config::Settings;
use crate::config::settings::{Redis, Store};
use crate::control::{Control, Parts};
use crate::data_folder::DataFolder;
use crate::denials::Denials;
use crate::grpc::GrpcApi;
use crate::grpc::rate_limit::RateLimit;
use crate::health::Health;
use crate::http::HttpApi;
use crate::listen::capacity::Capacity;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::run::ServeError;

/// Reservations that wait to be settled, where memory leaves room for as many.
const MAX_RESERVATIONS: usize = 1_000_000;

/// The parts of a service.
pub(crate) struct Assembly {
    pub(crate) data: DataFolder,
    pub(crate) limiter: Limiter,
    pub(crate) control: Control,
    pub(crate) trail: Trail,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) reporter: HealthReporter,
    pub(crate) apis: Apis,
}

/// Who answers.
pub(crate) struct Apis {
    pub(crate) grpc: GrpcApi,
    pub(crate) http: HttpApi,
    pub(crate) admin: AdminApi,
}

impl Assembly {
    /// Puts them together as the settings say, for so many connections and so much memory.
    pub(crate) async fn new(
        settings: &Settings,
        capacity: Capacity,
        memory: &Memory,
    ) -> Result<Self, ServeError> {
        let data = DataFolder::open(&settings.data)?;
        let trail = open_trail(settings, &data)?;
        let control = open_control(settings, &data, &trail).await?;
        let limiter = build_limiter(settings, &data, &control, memory).await?;
        control.start(&limiter).await;
        let (health, metrics) = (Health::new(limiter.clone()), Metrics::new(memory.clone(), capacity));
        let health = health.with_catalog(control.health().clone());
        let (reporter, health_server) = tonic_health::server::health_reporter();
        let renderer = Renderer::new(Headers {
            ratelimit: settings.headers.ratelimit,
            draft06: settings.headers.draft06,
            x_ratelimit: settings.headers.x_ratelimit,
            partition_key: settings.headers.partition_key,
        });
        let renderer = renderer.denial_body(settings.denial_body.clone());
        let (bounds, audit) = (settings.bounds, &settings.audit);
        let rate_limit = RateLimit {
            limiter: limiter.clone(),
            bounds,
            headers: settings.headers.rls.then(|| renderer.clone()),
            body: renderer.has_denial_body().then(|| renderer.clone()),
            metrics: metrics.clone(),
            denials: Denials::new(trail.clone(), audit.denials_per_second, audit.descriptors, node(settings)),
            traced: settings.traces.is_some(),
        };
        settings.http.client_ip.warn();
        let http = HttpApi {
            limiter: limiter.clone(),
            renderer,
            bounds,
            metrics: metrics.clone(),
            health: health.clone(),
            rate_limit: rate_limit.clone(),
            tokens: settings.http.tokens.then(|| control.book().clone()),
            client_ip: Arc::new(settings.http.client_ip.clone()),
            peer: Ipv4Addr::LOCALHOST.into(),
            cross_site: settings.http.cross_site,
            memory: memory.clone(),
        };
        let limits = Limits {
            hosts: AllowedHosts::of(&settings.admin),
            // Half of the connections at least are left for probes and scrapers, which need no token.
            load: Load::new((capacity.admin / 8).clamp(2, 32), (capacity.admin / 2).max(2)),
            bodies: memory.admin_bodies().clone(),
        };
        let admin =
            AdminApi::new(limiter.clone(), metrics.clone(), health.clone(), bounds, control.clone(), limits);
        let grpc_tokens = settings.grpc.tokens.then(|| control.book().clone());
        let grpc = GrpcApi::new(rate_limit, health_server, grpc_tokens, memory.streams().clone())?;
        let apis = Apis { grpc, http, admin };
        Ok(Self { data, limiter, control, trail, metrics, health, reporter, apis })
    }
}

async fn open_control(settings: &Settings, data: &DataFolder, trail: &Trail) -> Result<Control, ServeError> {
    let book = Book::default();
    own::generated(&book, &data.admin_token())?;
    if let Some(file) = &settings.admin.token_file {
        own::given(&book, file)?;
    }
    let parts = Parts {
        book,
        trail: Some(trail.clone()),
        switches: settings.switches.clone(),
        listen: (&settings.catalog_listen).into(),
        required: settings.catalog_required,
        retention: settings.history,
        node: node(settings),
    };
    Ok(Control::open(&settings.catalog, data.path(), parts).await?)
}

/// What this node is called.
fn node(settings: &Settings) -> String {
    if !settings.node.is_empty() {
        return settings.node.clone();
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn open_trail(settings: &Settings, data: &DataFolder) -> Result<Trail, ServeError> {
    let audit = &settings.audit;
    let bounds = tidegate_audit::Settings {
        segment_bytes: audit.segment_bytes,
        total_bytes: audit.total_bytes,
        total_age: audit.keep,
        node: node(settings),
        ..tidegate_audit::Settings::default()
    };
    let sink = FileSink::open(&data.audit(), &bounds)?;
    Ok(Trail::start(sink, &bounds, Arc::new(SystemClock::new())))
}

async fn build_limiter(
    settings: &Settings,
    data: &DataFolder,
    control: &Control,
    memory: &Memory,
) -> Result<Limiter, ServeError> {
    let never = Duration::from_hours(24 * 365);
    let builder = match &settings.rules {
        None => Limiter::builder(),
        Some(path) if settings.has_built_in_rules() => {
            tracing::warn!(
                path = %path.display(),
                "there are no rules: only limits that requests bring along are enforced, in the domain apps"
            );
            Limiter::builder().default_domain(built_in_domain())
        }
        Some(path) if !path.exists() => return Err(ServeError::NoRules { path: path.clone() }),
        Some(path) => Limiter::builder().rules(path),
    };
    let builder = builder
        .tenants(Arc::new(control.tenants()))
        .rules_may_come_later(true)
        .watch(settings.reload)
        .defaults(settings.defaults)
        .switches(settings.switches.clone())
        .max_keys(settings.memory.max_keys.min(memory.max_keys()))
        .max_reservations(memory.max_reservations().min(MAX_RESERVATIONS));
    let builder = match &settings.store {
        Store::Memory => {
            builder.memory().snapshot(data.counters(), settings.memory.snapshot_every.unwrap_or(never))
        }
        Store::Redis(url) => {
            let store = connect(url, &settings.redis).await;
            builder.redis_store(store, settings.fallback, settings.redis.secret.reveal())
        }
    };
    // Tenants are read from the catalog, and that waits.
    let built = tokio::task::spawn_blocking(|| builder.build()).await.map_err(io::Error::other)?;
    Ok(built?)
}

/// The domain of a service that was given no rules: the one in which the middlewares ask about limits that stand
/// in the code of applications. `tidegate init` writes the same as rules/apps.yaml.
fn built_in_domain() -> Domain {
    Domain::new("apps").inline_limits(1_000)
}

/// Whether the machine has one core only, or there is a CPU quota of less than the cores that this process may
/// use. Who looks for answers there uses up what the others need, and then all stand still.
fn cpu_is_scarce() -> bool {
    let alone =
        std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|cores| cores.trim() == "0");
    // The one considers quotas, the other does not.
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count() as usize);
    alone || allowed < cores
}

/// A store on these servers, and in the log what is wrong with them. The service starts all the same:
/// rules say what to do without a store.
async fn connect(url: &StoreUrl, settings: &Redis) -> RedisStore {
    let store = RedisStore::connect(RedisStoreConfig {
        deadline: settings.deadline,
        prefix: settings.prefix.clone(),
        parts: settings.parts,
        nodes: settings.nodes,
        remember_denials: settings.remember_denials,
        most_waiting: settings.max_waiting,
        busy_poll: if cpu_is_scarce() { Duration::ZERO } else { settings.busy_poll },
        ..RedisStoreConfig::new(url.clone())
    })
    .await;
    for Finding { server, version, problems } in store.check_up().await {
        let version = version.unwrap_or_default();
        if problems.is_empty() {
            tracing::info!(server, version, "the store is there");
        }
        for problem in problems {
            tracing::warn!(server, version, problem, "the store is not as it should be");
        }
    }
    if settings.secret.is_empty() {
        tracing::warn!(
            "redis.secret is empty: whoever knows this program can find keys that meet others'; set one"
        );
    }
    store
}
