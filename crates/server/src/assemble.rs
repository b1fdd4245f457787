//! Builds the parts of the service, before its listeners are open.

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

use crate::access::{TokenRegistry, node_tokens};
use crate::admin::browser::AllowedHosts;
use crate::admin::{AdminApi, AdminParts, Limits, Load};
use crate::config::Settings;
use crate::config::settings::{Compat, Redis, Store};
use crate::control::{Control, ControlParts};
use crate::data_folder::DataFolder;
use crate::decider::Decider;
use crate::denials::Denials;
use crate::grpc::GrpcApi;
use crate::grpc::rate_limit::RateLimit;
use crate::health::Health;
use crate::http::HttpApi;
use crate::listen::capacity::Share;
use crate::listen::connections::Eviction;
use crate::listen::listener::{Listener, Protocols};
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::recorder::{Recorder, RecorderParts};
use crate::run::ServeError;
use crate::usage_link::UsageLinks;

/// The maximum number of reservations, if there is memory for as many.
const MAX_RESERVATIONS: usize = 1_000_000;

/// The parts of a service.
pub(crate) struct Assembly {
    pub(crate) data: DataFolder,
    pub(crate) limiter: Limiter,
    pub(crate) control: Control,
    pub(crate) trail: Trail,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) reporter: HealthReporter,
    pub(crate) listeners: Vec<Listener>,
}

impl Assembly {
    /// Builds the parts that the settings describe. The admin listener gets `admin_connections` connections.
    pub(crate) async fn new(
        settings: &Settings,
        memory: &Memory,
        admin_connections: usize,
    ) -> Result<Self, ServeError> {
        let data = DataFolder::open(&settings.data)?;
        let trail = open_trail(settings, &data)?;
        let control = open_control(settings, &data, &trail).await?;
        let store = match &settings.store {
            Store::Memory => None,
            Store::Redis(url) => Some(connect(url, &settings.redis).await),
        };
        let limiter = build_limiter(settings, &data, &control, memory, store.clone()).await?;
        control.start(&limiter).await;
        let metrics = Metrics::new(memory.clone(), settings.other_names);
        let health = Health::new(limiter.clone());
        let health = health.with_catalog(control.health().clone());
        let parts = (limiter.clone(), metrics.clone(), health.clone());
        let recorder = build_recorder(settings, &data, memory, parts, store);
        recorder.start();
        control.set_recorder(&recorder);
        let (reporter, health_server) = tonic_health::server::health_reporter();
        let renderer = build_renderer(settings);
        let secret = match settings.redis.secret.reveal() {
            "" => data.secret()?,
            shared => shared.as_bytes().to_vec(),
        };
        let links = UsageLinks::new(&secret, limiter.clone(), recorder.clone());
        let (bounds, audit) = (settings.bounds, &settings.audit);
        let denials =
            Denials::new(trail.clone(), audit.denials_per_second, audit.descriptors, node(settings));
        let decider = Decider::new("grpc", limiter.clone(), metrics.clone())
            .with_denials(denials)
            .with_recorder(recorder.clone())
            .with_traces(settings.traces.is_some());
        let rate_limit = RateLimit {
            decider,
            bounds,
            headers: settings.headers.rls.then(|| renderer.clone()),
            body: renderer.has_denial_body().then(|| renderer.clone()),
        };
        settings.http.client_ip.warn();
        let decider = rate_limit.decider.for_front_end("http");
        let http = HttpApi {
            rate_limit: RateLimit { decider: decider.clone(), ..rate_limit.clone() },
            decider,
            renderer: renderer.clone(),
            bounds,
            health: health.clone(),
            tokens: settings.http.tokens.then(|| control.registry().clone()),
            client_ip: Arc::new(settings.http.client_ip.clone()),
            peer: Ipv4Addr::LOCALHOST.into(),
            cross_site: settings.http.cross_site,
            json_forms: settings.compat == Compat::EnvoyRatelimit,
            memory: memory.clone(),
            links: Some(links.clone()),
        };
        let limits = Limits {
            hosts: AllowedHosts::of(&settings.admin),
            // At least half of the connections are left for probes and scrapers, which need no token.
            load: Load::new((admin_connections / 8).clamp(2, 32), (admin_connections / 2).max(2)),
            bodies: memory.admin_bodies().clone(),
        };
        let parts = AdminParts {
            limiter: limiter.clone(),
            metrics: metrics.clone(),
            health: health.clone(),
            control: control.clone(),
            recorder: recorder.clone(),
            links,
            memory: memory.clone(),
            settings: settings.clone(),
            node: node(settings),
            decider: rate_limit.decider.for_front_end("admin"),
            renderer: renderer.clone(),
        };
        let admin = AdminApi::new(parts, limits);
        let grpc_tokens = settings.grpc.tokens.then(|| control.registry().clone());
        let grpc = GrpcApi::new(rate_limit, health_server, grpc_tokens, memory, settings)?;
        let grpc_settings = &settings.grpc;
        let max_age =
            grpc_settings.max_connection_age.map(|age| (age, grpc_settings.max_connection_age_grace));
        let traced = settings.traces.is_some();
        let listeners = vec![
            Listener {
                share: Share::Own(admin_connections),
                // The number of concurrent requests has its own limit.
                eviction: Eviction::Idle,
                // It shows why memory is short.
                sheds_load: false,
                // With ten thousand rules a scrape takes tens of milliseconds, and no decision waits for it.
                own_worker: true,
                needs_token: true,
                // Without traces: its paths name tenants, which are values of descriptors.
                ..Listener::new("admin", &settings.admin.listen, settings.admin.tls.as_ref(), admin)
            },
            Listener {
                protocols: Protocols::Http2,
                max_age,
                traced,
                ..Listener::new("grpc", &grpc_settings.listen, grpc_settings.tls.as_ref(), grpc)
            },
            Listener {
                traced,
                ..Listener::new("http", &settings.http.listen, settings.http.tls.as_ref(), http)
            },
        ];
        Ok(Self { data, limiter, control, trail, recorder, metrics, health, reporter, listeners })
    }
}

fn build_recorder(
    settings: &Settings,
    data: &DataFolder,
    memory: &Memory,
    (limiter, metrics, health): (Limiter, Metrics, Health),
    store: Option<RedisStore>,
) -> Recorder {
    if !settings.recorder {
        return Recorder::default();
    }
    Recorder::new(RecorderParts {
        limiter,
        metrics,
        health,
        file: data.history(),
        secret: settings.redis.secret.reveal().to_owned(),
        max_bytes: memory.limit(),
        node: node(settings),
        store,
        warnings: settings.warnings.clone(),
    })
}

fn build_renderer(settings: &Settings) -> Renderer {
    let renderer = Renderer::new(Headers {
        ratelimit: settings.headers.ratelimit,
        draft06: settings.headers.draft06,
        x_ratelimit: settings.headers.x_ratelimit,
        partition_key: settings.headers.partition_key,
    });
    renderer.denial_body(settings.denial_body.clone())
}

async fn open_control(settings: &Settings, data: &DataFolder, trail: &Trail) -> Result<Control, ServeError> {
    let registry = TokenRegistry::default();
    node_tokens::generated(&registry, &data.admin_token())?;
    if let Some(file) = &settings.admin.token_file {
        node_tokens::given(&registry, file)?;
    }
    let parts = ControlParts {
        registry,
        trail: Some(trail.clone()),
        switches: settings.switches.clone(),
        listen: (&settings.catalog_listen).into(),
        required: settings.catalog_required,
        retention: settings.history,
        node: node(settings),
    };
    Ok(Control::open(&settings.catalog, data.path(), parts).await?)
}

/// Returns the name of this node.
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
    store: Option<RedisStore>,
) -> Result<Limiter, ServeError> {
    let never = Duration::from_hours(24 * 365);
    let builder = match &settings.rules {
        None => Limiter::builder(),
        Some(path) if settings.has_built_in_rules() => {
            tracing::warn!(
                path = %path.display(),
                "there are no rules: only limits in requests themselves are enforced, in the domain apps"
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
        .max_reservations(memory.max_reservations().min(MAX_RESERVATIONS))
        .max_inline_limits(memory.max_inline_limits());
    let builder = match store {
        None => builder.memory().snapshot(data.counters(), settings.memory.snapshot_every.unwrap_or(never)),
        Some(store) => builder.redis_store(store, settings.fallback, settings.redis.secret.reveal()),
    };
    // It reads tenants from the catalog, which blocks.
    let built = tokio::task::spawn_blocking(|| builder.build()).await.map_err(io::Error::other)?;
    Ok(built?)
}

/// Returns the domain of a service without rules, which the middlewares use for limits in the code of applications.
/// `tidegate init` writes the same domain as rules/apps.yaml.
fn built_in_domain() -> Domain {
    Domain::new("apps").inline_limits(1_000)
}

/// Returns whether the machine has only one core, or there is a CPU quota of less than the cores that this process may
/// use. Busy polling would take the CPU time of the threads that it waits for.
fn cpu_is_scarce() -> bool {
    let alone =
        std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|cores| cores.trim() == "0");
    // The first considers quotas, the second does not.
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count() as usize);
    alone || allowed < cores
}

/// Connects to the shared store, and logs what is wrong with its servers. The service starts anyway: rules define what
/// happens without a store.
async fn connect(url: &StoreUrl, settings: &Redis) -> RedisStore {
    let store = RedisStore::connect(RedisStoreConfig {
        deadline: settings.deadline,
        prefix: settings.prefix.clone(),
        partitions: settings.parts,
        nodes: settings.nodes,
        remember_denials: settings.remember_denials,
        max_waiting: settings.max_waiting,
        busy_poll: if cpu_is_scarce() { Duration::ZERO } else { settings.busy_poll },
        ..RedisStoreConfig::new(url.clone())
    })
    .await;
    for Finding { server, version, problems } in store.check_up().await {
        let version = version.unwrap_or_default();
        if problems.is_empty() {
            tracing::info!(server, version, "the store is reachable");
        }
        for problem in problems {
            tracing::warn!(server, version, problem, "the store has a problem");
        }
    }
    if settings.secret.is_empty() {
        tracing::warn!(
            "redis.secret is empty: clients can find values whose keys collide with those of others; set one"
        );
    }
    store
}
