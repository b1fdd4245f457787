//! One span per request, for requests that are traced at all.

use http::{HeaderMap, Request, StatusCode};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tidegate::{Acquired, Decision};
use tonic::Code;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::grpc;
use crate::http as http_api;

/// Where the spans of requests come from. Libraries have spans of their own, those that send traces too.
pub const TARGET: &str = module_path!();

/// The span of a request, under the caller's if it names one in `traceparent`.
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
    // It fails only where nobody collects spans.
    let _ = span.set_parent(parent);
    span
}

/// A path, if it is one of ours: others are whatever a client writes.
fn name(path: &str) -> &str {
    if http_api::is_known(path) || grpc::is_known(path) { path } else { "unknown" }
}

/// Adds to the span of the request at hand what was decided about it. Values of descriptors stay here.
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

/// The same of a request for slots, which is let in by nobody in particular.
pub fn acquired(request: &tidegate::Request<'_>, acquired: &Acquired) {
    match acquired {
        Acquired::Denied(decision) => decided(request, decision),
        Acquired::Permit(_) => {
            Span::current().record("ratelimit.domain", request.domain()).record("ratelimit.allowed", true);
        }
    }
}

/// The same of many requests in one.
pub fn decided_batch(size: usize, denied: usize) {
    Span::current().record("ratelimit.batch.size", size).record("ratelimit.batch.denied", denied);
}

/// Adds how an HTTP request was answered.
pub fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
}

/// Adds how a gRPC call was answered.
pub fn called(span: &Span, code: Code) {
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
