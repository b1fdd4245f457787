//! Logs, and traces if a collector is configured.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{self, Sampler, SdkTracerProvider};
use thiserror::Error;
use tonic::transport::ClientTlsConfig;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::config::secret::redacted;
use crate::config::settings::{Log, LogFormat, Traces};
use crate::trace::TARGET;

/// How long the service waits for the collector when it stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends traces. The remaining ones are sent when it is stopped.
pub struct Telemetry(Option<SdkTracerProvider>);

/// Why traces cannot be sent.
#[derive(Debug, Error)]
#[error("traces cannot be sent to {endpoint} (traces.endpoint): {source}")]
pub struct TelemetryError {
    endpoint: String,
    source: ExporterBuildError,
}

/// Starts logging, and tracing if it is configured, which needs a runtime.
///
/// # Errors
/// If the address of the collector is invalid.
pub fn start(log: Log, traces: Option<&Traces>) -> Result<Telemetry, TelemetryError> {
    let human = match log.format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => io::stderr().is_terminal(),
    };
    // Libraries log warnings only.
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse_lossy(format!("warn,tidegate={0},tidegate_server={0},tidegate_stores={0}", log.level));
    let filter = if log.level == "off" { EnvFilter::new("off") } else { filter };
    let lines = if human {
        fmt::layer().with_target(false).with_ansi(io::stderr().is_terminal()).with_writer(io::stderr).boxed()
    } else {
        fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed()
    };
    let provider = traces.map(provider).transpose()?;
    let spans = provider.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("tidegate"))
            // Sending traces creates spans too, which must not be sent.
            .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET))
    });
    let subscriber = tracing_subscriber::registry().with(spans).with(lines.with_filter(filter));
    // A second start, in tests, keeps the subscriber of the first.
    let _ = subscriber.try_init();
    Ok(Telemetry(provider))
}

#[expect(clippy::float_arithmetic, reason = "the sampler takes a share of 1")]
fn provider(traces: &Traces) -> Result<SdkTracerProvider, TelemetryError> {
    let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(&traces.endpoint);
    // Only if it is needed: it fails on a system without certificate authorities.
    if traces.endpoint.starts_with("https://") {
        exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
    }
    let exporter =
        exporter.build().map_err(|source| TelemetryError { endpoint: redacted(&traces.endpoint), source })?;
    let exporter = LoggingExporter { exporter, failing: AtomicBool::new(false) };
    let share = f64::from(traces.sample_ppm) / 1e6;
    Ok(SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("tidegate").build())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))))
        .with_batch_exporter(exporter)
        .build())
}

/// An exporter that logs when traces cannot be sent, and when they can be sent again.
#[derive(Debug)]
struct LoggingExporter {
    exporter: SpanExporter,
    failing: AtomicBool,
}

impl trace::SpanExporter for LoggingExporter {
    async fn export(&self, batch: Vec<trace::SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.exporter.export(batch).await;
        let failed = self.failing.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Err(error) if !failed => {
                tracing::warn!(spans, %error, "traces were not sent and are lost (traces.endpoint)");
            }
            Ok(()) if failed => tracing::info!("traces are sent again"),
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl Telemetry {
    /// Sends the remaining traces.
    pub async fn stop(self) {
        let Some(provider) = self.0 else { return };
        // Sending needs this runtime, so another thread has to wait for it.
        let stop = move || provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(stop).await {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
