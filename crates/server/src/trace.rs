//! Spans of requests, if the service is traced.

use http::{HeaderMap, Request, StatusCode};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tidegate::Decision;
use tonic::Code;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::grpc;
use crate::http as http_api;

/// The target of request spans. Libraries have their own spans, including those that send traces.
pub const TARGET: &str = module_path!();

/// Returns the span of a request, whose parent is the span in `traceparent` if there is one.
pub fn span<B>(request: &Request<B>) -> Span {
    let span = tracing::info_span!(
        "request",
        otel.kind = "server",
        otel.name = name(request.uri().path()),
        http.request.method = request.method().as_str(),
        http.response.status_code = Empty,
        rpc.grpc.status_code = Empty,
        ratelimit.domain = Empty,
        ratelimit.allowed = Empty,
        ratelimit.rule = Empty,
        ratelimit.source = Empty,
        ratelimit.batch.size = Empty,
        ratelimit.batch.denied = Empty,
    );
    let parent = TraceContextPropagator::new().extract(&Headers(request.headers()));
    // It fails only if no subscriber collects spans.
    let _ = span.set_parent(parent);
    span
}

/// Returns the path of a known route or method. Other paths are chosen by clients.
fn name(path: &str) -> &str {
    if http_api::is_known(path) || grpc::is_known(path) { path } else { "unknown" }
}

/// Adds a decision to the span of the current request, without values of descriptors.
#[cold]
pub fn decided(request: &tidegate::Request<'_>, decision: &Decision) {
    let span = Span::current();
    span.record("ratelimit.domain", request.domain());
    span.record("ratelimit.allowed", decision.allowed());
    span.record("ratelimit.source", decision.source().name());
    if let Some(by) = decision.decided_by() {
        span.record("ratelimit.rule", by.rule);
    }
}

/// Adds to the span of the current request that its slots were acquired. No single rule lets it in.
pub fn acquired(request: &tidegate::Request<'_>) {
    Span::current().record("ratelimit.domain", request.domain()).record("ratelimit.allowed", true);
}

/// Adds to the span of the current request how many requests its batch has, and how many were denied.
pub fn decided_batch(size: usize, denied: usize) {
    Span::current().record("ratelimit.batch.size", size).record("ratelimit.batch.denied", denied);
}

/// Adds the status of an HTTP response.
pub fn http_status(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
}

/// Adds the status of a gRPC response.
pub fn grpc_status(span: &Span, code: Code) {
    span.record("rpc.grpc.status_code", code as i32);
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
