//! Traces as a collector gets them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tidegate_testkit::redis::RedisServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tower_service::Service as _;

use crate::support::grpc::Client;
use crate::support::service::{Setup, get, post, send, until};
use crate::tls::Authority;

const RULES: &str = "
domain: api
descriptors:
  - {key: user, name: per_user, rate_limit: {unit: day, requests_per_unit: 1}}
";
const ANN: &str = r#"{"user":"ann"}"#;
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A collector that hands on what it gets.
struct Collector {
    at: SocketAddr,
    exports: Receiver<ExportTraceServiceRequest>,
}

/// What it does with an export.
struct HandOn(Sender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for HandOn {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn start() -> Self {
        Self::listen(None)
    }

    /// Starts one, with TLS if there is something to speak it with. It ends with the test's process.
    fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let at = listener.local_addr().expect("an address");
        let (sender, exports) = channel();
        let routes = Routes::new(TraceServiceServer::new(HandOn(sender))).prepare();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    let (routes, tls) = (routes.clone(), tls.clone());
                    tokio::spawn(async move {
                        match tls {
                            None => serve(stream, routes).await,
                            Some(tls) => serve(tls.accept(stream).await.expect("TLS"), routes).await,
                        }
                    });
                }
            });
        });
        Self { at, exports }
    }

    /// What it has got from a service that has ended, checked to be from one.
    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for export in self.exports.try_iter() {
            for resource in export.resource_spans {
                let about = attributes(&resource.resource.expect("a resource").attributes);
                assert_eq!(about["service.name"], "tidegate");
                spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, routes: Routes) {
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let mut routes = routes.clone();
        async move { routes.call(request.map(tonic::body::Body::new)).await }
    });
    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // A service that has ended is gone.
    let _ = http2.serve_connection(TokioIo::new(stream), service).await;
}

fn attributes(pairs: &[KeyValue]) -> HashMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(it)) => it.to_string(),
        other => format!("{other:?}"),
    };
    pairs.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

/// The attributes that users search by, of those that there are.
fn told(span: &Span) -> BTreeMap<String, String> {
    let ours = |name: &String| ["http.", "rpc.", "ratelimit."].iter().any(|start| name.starts_with(start));
    attributes(&span.attributes).into_iter().filter(|(name, _)| ours(name)).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn traced(endpoint: &str) -> Setup {
    Setup::rules(RULES).with("traces.endpoint", endpoint).with("traces.sample", "1")
}

#[test]
fn a_collector_gets_one_span_of_each_request_even_just_before_the_end() {
    let collector = Collector::start();
    let service = traced(&format!("http://{}", collector.at)).start();
    assert_eq!(service.check("api", ANN).status, 200);
    assert_eq!(service.check("api", ANN).status, 429);
    assert_eq!(post(service.http, "/v1/check", "{").status, 400);
    Client::new(&service).check_one("api", "user", "bob");
    let ended = service.stop();
    assert!(ended.status.success(), "{}", ended.errors);
    assert!(!ended.errors.contains("traces were not sent"), "{}", ended.errors);

    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["/v1/check", "/v1/check", "/v1/check", SHOULD_RATE_LIMIT]);
    for span in &spans {
        assert_eq!(span.kind(), opentelemetry_proto::tonic::trace::v1::span::SpanKind::Server);
        assert!(span.start_time_unix_nano > 0 && span.end_time_unix_nano >= span.start_time_unix_nano);
    }
    let decided = |allowed: &str, status: &str| {
        pairs([
            ("http.request.method", "POST"),
            ("http.response.status_code", status),
            ("ratelimit.allowed", allowed),
            ("ratelimit.domain", "api"),
            ("ratelimit.rule", "per_user"),
            ("ratelimit.source", "memory"),
        ])
    };
    assert_eq!(told(&spans[0]), decided("true", "200"));
    assert_eq!(told(&spans[1]), decided("false", "429"));
    let refused = pairs([("http.request.method", "POST"), ("http.response.status_code", "400")]);
    assert_eq!(told(&spans[2]), refused);
    let over_grpc = pairs([
        ("http.request.method", "POST"),
        ("ratelimit.allowed", "true"),
        ("ratelimit.domain", "api"),
        ("ratelimit.rule", "per_user"),
        ("ratelimit.source", "memory"),
        ("rpc.grpc.status_code", "0"),
    ]);
    assert_eq!(told(&spans[3]), over_grpc);
}

#[test]
fn spans_tell_of_slots_reservations_and_batches_what_was_decided() {
    let rules = "
domain: api
descriptors:
  - {key: user, name: per_user, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: job, name: jobs, concurrency: {max: 1, timeout: 1m}}
";
    let collector = Collector::start();
    let setup = Setup::rules(rules).with("traces.endpoint", &format!("http://{}", collector.at));
    let service = setup.with("traces.sample", "1").start();
    let about = |descriptor: &str| format!(r#"{{"domain":"api","descriptor":{descriptor}}}"#);
    for status in [200, 429] {
        assert_eq!(post(service.http, "/v1/acquire", &about(r#"{"job":"j"}"#)).status, status);
        assert_eq!(post(service.http, "/v1/reserve", &about(ANN)).status, status);
    }
    let batch = format!("[{}, {}, {{}}]", about(ANN), about(r#"{"user":"bob"}"#));
    assert_eq!(post(service.http, "/v1/check", &batch).status, 200);
    assert!(service.stop().status.success());

    let ours = |span: &Span| {
        let told = told(span).into_iter().filter(|(name, _)| name.starts_with("ratelimit."));
        (span.name.clone(), told.collect::<BTreeMap<_, _>>())
    };
    let found: Vec<_> = collector.spans().iter().map(ours).collect();
    let of = |name: &str, told: BTreeMap<String, String>| (name.to_owned(), told);
    let given = pairs([("ratelimit.allowed", "true"), ("ratelimit.domain", "api")]);
    let by = |rule, allowed| {
        pairs([
            ("ratelimit.allowed", allowed),
            ("ratelimit.domain", "api"),
            ("ratelimit.rule", rule),
            ("ratelimit.source", "memory"),
        ])
    };
    let batch = pairs([("ratelimit.batch.size", "3"), ("ratelimit.batch.denied", "1")]);
    let wanted = [
        of("/v1/acquire", given),
        of("/v1/reserve", by("per_user", "true")),
        of("/v1/acquire", by("jobs", "false")),
        of("/v1/reserve", by("per_user", "false")),
        of("/v1/check", batch),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn on_a_shared_store_a_request_has_one_span_too() {
    let (collector, redis) = (Collector::start(), RedisServer::start());
    let setup = traced(&format!("http://{}", collector.at)).with("store", &redis.url());
    let service = setup.with("redis.secret", "a secret").with("redis.deadline", "5s").start();
    Client::new(&service).check_one("api", "user", "ann");
    assert!(service.stop().status.success());
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:?}");
    let told = told(&spans[0]);
    assert_eq!((&*told["ratelimit.source"], &*told["rpc.grpc.status_code"]), ("redis", "0"));
}

#[test]
fn the_caller_says_which_requests_are_traced_and_under_what() {
    let collector = Collector::start();
    let setup = Setup::rules(RULES).with("traces.endpoint", &format!("http://{}", collector.at));
    let service = setup.with("traces.sample", "0").start();
    let ask = |parent: &str| {
        let body = format!(r#"{{"domain":"api","descriptor":{ANN}}}"#);
        let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close";
        let length = body.len();
        send(
            service.http,
            &format!("{head}\r\ntraceparent: {parent}\r\ncontent-length: {length}\r\n\r\n{body}"),
        );
    };
    ask("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    ask("00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-00");
    service.check("api", ANN);
    assert!(service.stop().status.success());
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:?}");
    let trace: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
    assert_eq!(spans[0].trace_id, trace.to_be_bytes());
    assert_eq!(spans[0].parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
}

#[test]
fn a_collector_is_reached_by_tls() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost");
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_no_client_auth();
    let mut config = builder.with_single_cert(chain.expect("a certificate"), key).expect("they fit");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let collector = Collector::listen(Some(TlsAcceptor::from(Arc::new(config))));

    let setup = traced(&format!("https://localhost:{}", collector.at.port()));
    let trusted = setup.path().join("ca.pem");
    fs::write(&trusted, authority.pem()).expect("it is written");
    let service = setup.environment("SSL_CERT_FILE", &trusted.display().to_string()).start();
    service.check("api", ANN);
    let ended = service.stop();
    assert_eq!(collector.spans().len(), 1, "{}", ended.errors);
}

#[test]
fn spans_have_names_of_ours_alone_and_plain_text_needs_no_authorities() {
    let collector = Collector::start();
    let setup = traced(&format!("http://{}", collector.at));
    let none = setup.path().join("no-authorities.pem");
    fs::write(&none, "").expect("it is written");
    let service = setup.environment("SSL_CERT_FILE", &none.display().to_string()).start();
    assert_eq!(get(service.http, "/made/up/by/ann").status, 404);
    assert_eq!(get(service.admin, "/admin/v1/quotas/ann").status, 401);
    service.stop();
    let names: Vec<_> = collector.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["unknown"]);
}

#[test]
fn a_collector_that_never_answers_holds_up_neither_decisions_nor_the_end() {
    // It takes connections, which the system does by itself, and reads nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = silent.local_addr().expect("an address");
    let service = traced(&format!("http://{at}")).start();
    let mut client = Client::new(&service);
    // Far more than wait to be sent: what is over that is lost, and nobody waits for it.
    for call in 0..5_000 {
        client.check_one("api", "user", &call.to_string());
    }
    // Nobody else is to be waited for.
    drop(client);
    let stopped = thread::spawn(move || service.stop());
    until("it has stopped", || stopped.is_finished());
    let ended = stopped.join().expect("it ends");
    assert!(ended.status.success(), "{}", ended.errors);
    assert!(ended.errors.contains("the last traces were not sent"), "{}", ended.errors);
}
