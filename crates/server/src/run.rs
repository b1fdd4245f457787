//! Starts the service, runs it, and stops it.

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

use crate::access::NodeTokenError;
use crate::assemble::Assembly;
use crate::banner;
use crate::config::Settings;
use crate::config::settings::CatalogLocation;
use crate::data_folder::{DataFolder, DataFolderError};
use crate::health::Health;
use crate::listen::acceptor::accept;
use crate::listen::capacity::{Capacity, Files};
use crate::listen::listener::{OpenError, OpenListener};
use crate::listen::worker::Worker;
use crate::logs::{self, TelemetryError};
use crate::memory::Memory;
use crate::recorder::Recorder;
use crate::signals::Signals;

/// How often connections are counted while the service drains.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);
/// How often the readiness of the service is checked.
const HEALTH_INTERVAL: Duration = Duration::from_millis(500);
/// How long the service waits for the disk of the audit trail when it stops.
const TRAIL_GRACE: Duration = Duration::from_secs(5);
/// The name of the service in gRPC's health protocol, as in envoyproxy/ratelimit.
const HEALTH_NAME: &str = "ratelimit";

/// Reasons the service cannot start. Each message tells what to do.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The rules or the counters on disk.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// There are no rules at the path in the settings.
    #[error(
        "there are no rules at {path} (rules); write some with `tidegate init`, name another path, or use \
         `--rules catalog` and push rules with `tidegate rules push`"
    )]
    NoRules {
        /// The path.
        path: PathBuf,
    },
    /// A listener.
    #[error("{0}")]
    Listener(#[from] OpenError),
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
    OwnToken(#[from] NodeTokenError),
    /// Other machines can reach the admin listener, and there is no token.
    #[error(
        "other machines can reach the admin listener at {place} (admin.listen), but there is no token: name a file \
         with one (admin.token_file), or listen on 127.0.0.1 and create one with `tidegate token create`"
    )]
    NoToken {
        /// The address of the listener.
        place: String,
    },
    /// The trace collector.
    #[error("{0}")]
    Telemetry(#[from] TelemetryError),
    /// The protocols compiled into the program.
    #[error("reflection cannot start: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The system.
    #[error("the system does not permit the service to start: {0}")]
    System(#[from] io::Error),
}

/// Runs the service until a signal stops it.
///
/// # Errors
/// If it cannot start.
pub fn serve(settings: &Settings) -> Result<(), ServeError> {
    // It fails only if a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // For accepting, control and telemetry. Requests are answered by workers.
    let control = runtime::Builder::new_current_thread().enable_all().build()?;
    control.block_on(async {
        let telemetry = logs::start(settings.log, settings.traces.as_ref())?;
        // First: a signal must not kill a service that is still starting.
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
    /// Becomes true when connections are no longer accepted.
    stop: watch::Sender<bool>,
    /// True once connections are asked to close.
    drain: watch::Sender<bool>,
    /// The listeners, and the workers that serve their connections until they are dropped.
    open: Vec<(Arc<OpenListener>, Arc<[Worker]>)>,
    trail: Trail,
    recorder: Recorder,
    _data: DataFolder,
}

impl Service {
    async fn start(settings: &Settings) -> Result<Self, ServeError> {
        let count =
            settings.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let (files, memory) = (Files::raise(settings, count), Memory::new(settings.memory.max_bytes));
        memory.watch()?;
        let Assembly { data, limiter, control, trail, recorder, metrics, health, reporter, listeners } =
            Assembly::new(settings, &memory, files.admin_connections(settings)).await?;
        let capacity = Capacity::new(&listeners, settings, files, &memory);
        let (stop, stopping) = watch::channel(false);
        let (drain, draining) = watch::channel(false);
        let worker = |number| Worker::start(format!("tidegate-worker-{number}"));
        let shared: Arc<[Worker]> = (0..count).map(worker).collect::<io::Result<_>>()?;
        let mut banner = banner::Banner::new(settings, &limiter);
        let mut opened = Vec::new();
        for listener in listeners {
            let (max, metrics) = (capacity.of(listener.name), metrics.listener(listener.name));
            metrics.set_max_connections(max);
            if listener.address.is_off() {
                continue;
            }
            let (socket, listener) =
                OpenListener::open(listener, max, settings, &memory, metrics, draining.clone())?;
            let has_token = || settings.admin.token_file.is_some() || control.registry().has_shared();
            if listener.listener.needs_token && socket.is_exposed() && !has_token() {
                return Err(ServeError::NoToken { place: socket.place() });
            }
            banner.listener(listener.listener.name, &socket, listener.certificates.is_some());
            opened.push((socket, Arc::new(listener)));
        }
        // Nothing is accepted before every listener is open.
        let mut open = Vec::new();
        for (socket, listener) in opened {
            let (name, tls) = (listener.listener.name, listener.certificates.is_some());
            let workers: Arc<[Worker]> = if listener.listener.own_worker {
                Arc::new([Worker::start(format!("tidegate-{name}"))?])
            } else {
                Arc::clone(&shared)
            };
            tracing::info!(listener = name, at = socket.place(), tls, "listening");
            tokio::spawn(accept(socket, Arc::clone(&workers), Arc::clone(&listener), stopping.clone()));
            open.push((listener, workers));
        }
        capacity.warn(settings, files, &memory);
        health.set_serving();
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
            trail,
            recorder,
            _data: data,
        })
    }

    /// Serves until a signal arrives, then drains.
    async fn run(self, mut signals: Signals) -> Result<(), ServeError> {
        let (mut reported, mut warned) = (self.health.is_ready(), false);
        self.report(if reported { ServingStatus::Serving } else { ServingStatus::NotServing }).await;
        let mut ticks = tokio::time::interval(HEALTH_INTERVAL);
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
            () = signals.stop() => tracing::warn!("stopping at once after a second signal"),
        }
        self.finish()
    }

    /// Logs a warning if other nodes share the store, but not the catalog. Returns whether it did.
    fn warn_of_other_nodes(&self) -> bool {
        let nodes = self.limiter.store_health().map_or(1, |health| health.nodes);
        let alone = self.settings.catalog != CatalogLocation::Sqlite || nodes <= 1;
        if !alone {
            tracing::warn!(nodes, "other nodes share the store, but each has a catalog of its own");
        }
        !alone
    }

    /// Reloads the rules on another thread.
    fn reload(&self) {
        let limiter = self.limiter.clone();
        // A mistake has been logged, and the last good rules stay in force.
        thread::spawn(move || drop(limiter.reload()));
    }

    async fn report(&self, status: ServingStatus) {
        self.reporter.set_service_status("", status).await;
        self.reporter.set_service_status(HEALTH_NAME, status).await;
    }

    /// Reports that the service is not ready, stops accepting, and waits for open connections.
    async fn drain(&self) {
        let settings = &self.settings.drain;
        tracing::info!(grace_ms = settings.grace.as_millis() as u64, "draining");
        self.health.set_draining();
        self.report(ServingStatus::NotServing).await;
        sleep(settings.delay).await;
        // There is no receiver if no listener is open.
        let _ = self.stop.send(true);
        let _ = self.drain.send(true);
        // Ends the streams that watch the health, which have been notified. They would keep their connections open for
        // the whole grace period.
        let mut reporter = self.reporter.clone();
        for name in ["", HEALTH_NAME] {
            reporter.clear_service_status(name).await;
        }
        let open = || self.open.iter().map(|(listener, _)| listener.connections.count()).sum::<usize>();
        let gone = async {
            while open() > 0 {
                sleep(DRAIN_INTERVAL).await;
            }
        };
        if timeout(settings.grace, gone).await.is_err() {
            tracing::warn!(connections = open(), "closing connections that did not finish (drain.grace)");
        }
    }

    /// Writes the counters to disk. The limiter would do so when it is dropped, but could not report a failure then.
    fn finish(self) -> Result<(), ServeError> {
        self.recorder.save();
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
