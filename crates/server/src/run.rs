//! The service from its start to its end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use thiserror::Error;
use tidegate::{BuildError, Limiter};
use tidegate_audit::Trail;
use tokio::runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::access::OwnTokenError;
use crate::assemble::{Apis, Assembly};
use crate::banner;
use crate::config::Settings;
use crate::config::settings::CatalogPlace;
use crate::data_folder::{DataFolder, DataFolderError};
use crate::health::Health;
use crate::listen::acceptor::accept;
use crate::listen::capacity::{Capacity, Files};
use crate::listen::connection::{Front, Serve};
use crate::listen::guests::{Guests, Manners};
use crate::listen::socket::{BindError, Socket};
use crate::listen::tls::{Certificates, TlsError};
use crate::listen::watchdog::Patience;
use crate::listen::worker::Worker;
use crate::logs::{self, TelemetryError};
use crate::memory::Memory;
use crate::signals::Signals;

/// How often connections are counted while the service drains.
const DRAIN_LOOK: Duration = Duration::from_millis(10);
/// How often it is looked whether the service has become ready, or is so no more.
const HEALTH_LOOK: Duration = Duration::from_millis(500);
/// How long the end waits for the audit trail's disk.
const TRAIL_GRACE: Duration = Duration::from_secs(5);
/// The service's name in gRPC's health protocol, as envoyproxy/ratelimit has it.
const HEALTH_NAME: &str = "ratelimit";

/// Why the service could not start. Each message says what to do.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The rules or the counters on disk.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// There are no rules where the settings say.
    #[error(
        "there are no rules at {path} (rules); write some with `tidegate init`, name another path, or say \
         `--rules catalog` and push them with `tidegate rules push`"
    )]
    NoRules {
        /// The path.
        path: PathBuf,
    },
    /// A listener.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// The data folder.
    #[error("{0}")]
    Data(#[from] DataFolderError),
    /// The catalog.
    #[error("the catalog cannot be used (catalog): {0}")]
    Catalog(#[from] tidegate_catalog::Error),
    /// The audit trail.
    #[error("{0}")]
    Audit(#[from] tidegate_audit::OpenError),
    /// A token in a file.
    #[error("{0}")]
    OwnToken(#[from] OwnTokenError),
    /// Others can reach the admin listener, and nobody has a token.
    #[error(
        "the admin listener at {place} can be reached from other machines (admin.listen), but there is no \
         token: name a file with one (admin.token_file), or listen on 127.0.0.1 and make one with `tidegate \
         token create`"
    )]
    NoToken {
        /// Where it would listen.
        place: String,
    },
    /// A certificate.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The trace collector.
    #[error("{0}")]
    Telemetry(#[from] TelemetryError),
    /// The protocols compiled into the program.
    #[error("reflection cannot start: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The system.
    #[error("the system does not let the service start: {0}")]
    System(#[from] io::Error),
}

/// Serves until told to stop.
///
/// # Errors
/// If it cannot start.
pub fn serve(settings: &Settings) -> Result<(), ServeError> {
    // It fails only where it was done before, and then things stay as they are.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // Accepting, administration and telemetry: everything but answering.
    let control = runtime::Builder::new_current_thread().enable_all().build()?;
    control.block_on(async {
        let telemetry = logs::start(settings.log, settings.traces.as_ref())?;
        // Before anything that takes time: a signal must not kill a service that is still starting.
        let mut signals = Signals::listen()?;
        let started = tokio::select! {
            biased;
            started = Service::start(settings) => Some(started),
            () = signals.stop() => None,
        };
        let served = match started {
            Some(Ok(service)) => service.run(signals).await,
            Some(Err(error)) => Err(error),
            None => {
                tracing::info!("stopped before it had started");
                Ok(())
            }
        };
        telemetry.stop().await;
        served
    })
}

/// A service that has started.
struct Service {
    settings: Settings,
    limiter: Limiter,
    health: Health,
    reporter: HealthReporter,
    /// True once no connections are to be accepted any more.
    stop: watch::Sender<bool>,
    /// True once connections are to go.
    drain: watch::Sender<bool>,
    /// The connections of each listener.
    open: Vec<Arc<Guests>>,
    /// They serve for as long as somebody may hand them connections.
    _workers: [Arc<[Worker]>; 2],
    trail: Trail,
    _data: DataFolder,
}

impl Service {
    async fn start(settings: &Settings) -> Result<Self, ServeError> {
        let count =
            settings.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let (files, memory) = (Files::raise(settings, count), Memory::new(settings.memory.max_bytes));
        let capacity = Capacity::new(settings, files, &memory);
        memory.watch()?;
        let Assembly { data, limiter, control, trail, metrics, health, reporter, apis } =
            Assembly::new(settings, capacity, &memory).await?;
        let (stop, stopping) = watch::channel(false);
        let (drain, draining) = watch::channel(false);
        let (grpc, Apis { grpc: grpc_api, http: http_api, admin: admin_api }) = (&settings.grpc, apis);
        let fronts = [
            (Front::Admin(admin_api), &settings.admin.listen, "admin.listen", &settings.admin.tls),
            (Front::Grpc(grpc_api, grpc.clone()), &grpc.listen, "grpc.listen", &grpc.tls),
            (Front::Http(http_api), &settings.http.listen, "http.listen", &settings.http.tls),
        ];
        let named = |number| Worker::start(format!("tidegate-worker-{number}"));
        let workers: Arc<[Worker]> = (0..count).map(named).collect::<io::Result<_>>()?;
        let admin_workers: Arc<[Worker]> = Arc::new([Worker::start("tidegate-admin".to_owned())?]);
        let mut banner = banner::Banner::new(settings, &limiter);
        let mut acceptors = Vec::new();
        for (front, listen, setting, tls) in fronts {
            if listen.is_off() {
                continue;
            }
            let socket = Socket::bind(listen, setting, settings.connections.socket_mode)?;
            let name = setting.split('.').next().unwrap_or(setting);
            let has_token = || settings.admin.token_file.is_some() || control.book().has_shared();
            if matches!(front, Front::Admin(_)) && socket.is_exposed() && !has_token() {
                return Err(ServeError::NoToken { place: socket.place() });
            }
            let protocols: &[&[u8]] = match &front {
                Front::Grpc(..) => &[b"h2"],
                Front::Http(_) | Front::Admin(_) => &[b"h2", b"http/1.1"],
            };
            let certificates =
                tls.as_ref().map(|tls| Certificates::load(name, tls, protocols, &metrics)).transpose()?;
            if let Some(certificates) = &certificates {
                tokio::spawn(Arc::clone(certificates).keep_current());
            }
            banner.listener(name, &socket, certificates.is_some());
            let guests = match &front {
                Front::Admin(_) => Guests::new(capacity.admin, Manners::Admin),
                Front::Grpc(..) => Guests::new(capacity.grpc, Manners::Http2),
                Front::Http(_) => Guests::new(capacity.http, Manners::Http),
            };
            // Paths of the admin listener name tenants, which are values of descriptors.
            let traced = settings.traces.is_some() && !matches!(front, Front::Admin(_));
            let how = Arc::new(Serve {
                patience: patience(settings, &front),
                front,
                certificates,
                drain: draining.clone(),
                header_bytes: settings.header_bytes,
                guests: Arc::new(guests),
                memory: memory.clone(),
                metrics: metrics.clone(),
                traced,
            });
            acceptors.push((socket, how));
        }
        let open = acceptors.iter().map(|(_, how)| Arc::clone(&how.guests)).collect();
        for (socket, how) in acceptors {
            announce(&socket, &how);
            let by = if matches!(how.front, Front::Admin(_)) { &admin_workers } else { &workers };
            tokio::spawn(accept(socket, Arc::clone(by), how, stopping.clone()));
        }
        capacity.warn(settings, files, &memory);
        health.serving();
        tracing::info!(ready = health.is_ready(), domains = limiter.domain_names().len(), "started");
        banner.show();
        Ok(Self {
            settings: settings.clone(),
            limiter,
            health,
            reporter,
            stop,
            drain,
            open,
            _workers: [workers, admin_workers],
            trail,
            _data: data,
        })
    }

    /// Serves until a signal says to stop, then drains.
    async fn run(self, mut signals: Signals) -> Result<(), ServeError> {
        let (mut reported, mut warned) = (self.health.is_ready(), false);
        self.report(if reported { ServingStatus::Serving } else { ServingStatus::NotServing }).await;
        let mut ticks = tokio::time::interval(HEALTH_LOOK);
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = signals.hang_up.recv() => self.reload(),
                _ = ticks.tick() => {
                    if self.health.is_ready() != reported {
                        reported = !reported;
                        self.report(if reported { ServingStatus::Serving } else { ServingStatus::NotServing }).await;
                    }
                    warned = warned || self.warn_of_other_nodes();
                }
            }
        }
        if !warned {
            self.warn_of_other_nodes();
        }
        tokio::select! {
            () = self.drain() => {}
            () = signals.stop() => tracing::warn!("stopping at once, as told twice"),
        }
        self.finish()
    }

    /// Says so if other nodes share the store, but not the catalog.
    fn warn_of_other_nodes(&self) -> bool {
        let nodes = self.limiter.store_health().map_or(1, |health| health.nodes);
        let alone = self.settings.catalog != CatalogPlace::Sqlite || nodes <= 1;
        if !alone {
            tracing::warn!(nodes, "other nodes share the store, but each has a catalog of its own");
        }
        !alone
    }

    /// Reads the rules anew, away from the threads that serve.
    fn reload(&self) {
        let limiter = self.limiter.clone();
        // What is wrong has been logged, and the last good rules stay.
        thread::spawn(move || drop(limiter.reload()));
    }

    async fn report(&self, status: ServingStatus) {
        self.reporter.set_service_status("", status).await;
        self.reporter.set_service_status(HEALTH_NAME, status).await;
    }

    /// Says that it is going, stops accepting, and waits for what was accepted.
    async fn drain(&self) {
        let settings = &self.settings.drain;
        tracing::info!(grace_ms = settings.grace.as_millis() as u64, "draining");
        self.health.draining();
        self.report(ServingStatus::NotServing).await;
        sleep(settings.delay).await;
        // Nobody listens if no listener was left; both are then settled already.
        let _ = self.stop.send(true);
        let _ = self.drain.send(true);
        // Who watches the health has been told. Such a stream has no end of its own, and would hold its
        // connection for the whole grace.
        let mut reporter = self.reporter.clone();
        for name in ["", HEALTH_NAME] {
            reporter.clear_service_status(name).await;
        }
        let open = || self.open.iter().map(|guests| guests.count()).sum::<usize>();
        let gone = async {
            while open() > 0 {
                sleep(DRAIN_LOOK).await;
            }
        };
        if timeout(settings.grace, gone).await.is_err() {
            tracing::warn!(connections = open(), "closing connections that did not finish (drain.grace)");
        }
    }

    /// Writes the counters to disk. The limiter would do so when it is dropped, but cannot tell of
    /// a failure then.
    fn finish(self) -> Result<(), ServeError> {
        match self.limiter.close() {
            Ok(Some(summary)) => tracing::info!(keys = summary.keys, "counters saved"),
            Ok(None) => {}
            Err(error) => return Err(BuildError::from(error).into()),
        }
        self.trail.close(TRAIL_GRACE);
        tracing::info!("stopped");
        Ok(())
    }
}

/// Tells where a listener is.
fn announce(socket: &Socket, how: &Serve) {
    let listener = match how.front {
        Front::Grpc(..) => "grpc",
        Front::Http(_) => "http",
        Front::Admin(_) => "admin",
    };
    tracing::info!(listener, at = socket.place(), tls = how.certificates.is_some(), "listening");
}

fn patience(settings: &Settings, front: &Front) -> Patience {
    let age = match front {
        Front::Grpc(..) => settings.grpc.max_connection_age,
        Front::Http(_) | Front::Admin(_) => None,
    };
    Patience {
        handshake: settings.connections.handshake_timeout,
        header: settings.http.header_timeout,
        idle: settings.http.idle_timeout,
        age: age.map(|age| (age, settings.grpc.max_connection_age_grace)),
    }
}
