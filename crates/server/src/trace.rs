//! One span per request, for requests that are traced at all.

use http::{HeaderMap, Request};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The span of a request, under the caller's if it names one in `traceparent`.
pub fn span<B>(request: &Request<B>) -> Span {
    let span = tracing::info_span!(
        "request",
        otel.kind = "server",
        otel.name = request.uri().path(),
        http.request.method = request.method().as_str(),
    );
    let parent = TraceContextPropagator::new().extract(&Headers(request.headers()));
    // It fails only where nobody collects spans.
    let _ = span.set_parent(parent);
    span
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
