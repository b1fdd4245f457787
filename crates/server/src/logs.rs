//! Logs for people on a terminal and for machines elsewhere; traces where a collector is named.

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

/// How long the end waits for the collector.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// Keeps traces flowing; what is left goes out when it is stopped.
pub struct Telemetry(Option<SdkTracerProvider>);

/// Why traces cannot be sent.
#[derive(Debug, Error)]
#[error("traces cannot be sent to {endpoint} (traces.endpoint): {source}")]
pub struct TelemetryError {
    endpoint: String,
    source: ExporterBuildError,
}

/// Starts logging, and tracing if it is wanted. Needs a runtime for the latter.
///
/// # Errors
/// If the collector's address is none.
pub fn start(log: Log, traces: Option<&Traces>) -> Result<Telemetry, TelemetryError> {
    let human = match log.format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => io::stderr().is_terminal(),
    };
    // The libraries below us are heard only when they warn.
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
            // Sending has spans too, each of which would have to be sent.
            .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET))
    });
    let subscriber = tracing_subscriber::registry().with(spans).with(lines.with_filter(filter));
    // A second start, in tests, goes on with the first.
    let _ = subscriber.try_init();
    Ok(Telemetry(provider))
}

#[expect(clippy::float_arithmetic, reason = "the sampler takes a share of 1")]
fn provider(traces: &Traces) -> Result<SdkTracerProvider, TelemetryError> {
    let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(&traces.endpoint);
    // Only where it is needed: a system without authorities is refused.
    if traces.endpoint.starts_with("https://") {
        exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
    }
    let exporter =
        exporter.build().map_err(|source| TelemetryError { endpoint: redacted(&traces.endpoint), source })?;
    let exporter = Telling { exporter, failing: AtomicBool::new(false) };
    let share = f64::from(traces.sample_ppm) / 1e6;
    Ok(SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("tidegate").build())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))))
        .with_batch_exporter(exporter)
        .build())
}

/// An exporter that tells when traces cannot be sent, and when they can again; not once a batch.
#[derive(Debug)]
struct Telling {
    exporter: SpanExporter,
    failing: AtomicBool,
}

impl trace::SpanExporter for Telling {
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
    /// Sends what is left.
    pub async fn stop(self) {
        let Some(provider) = self.0 else { return };
        // Sending needs this runtime, which must not be the one that waits.
        let stop = move || provider.shutdown_with_timeout(LAST_TRACES);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(stop).await {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
