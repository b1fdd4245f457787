//! What is only seen as time passes: the API in the test's own process, for its clock to be moved.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tidegate::rules::file;
use tidegate::{Defaults, Limiter, VirtualClock};
use tidegate_middleware::{ClientIp, Headers, Renderer};
use tidegate_server::bounds::Bounds;
use tidegate_server::decider::Decider;
use tidegate_server::grpc::rate_limit::RateLimit;
use tidegate_server::health::Health;
use tidegate_server::http::HttpApi;
use tidegate_server::metrics::Metrics;
use tokio::net::TcpListener;

use super::support::Client;

const RULES: &str = r"
domain: api
descriptors:
  - key: order
    limits: [{ name: once, algorithm: fixed_window, requests: 1, per: minute }]
  - key: job
    concurrency: { max: 1, timeout: 60s }
";
const ORDER: &str = r#"{"domain":"api","descriptor":{"order":"17"}}"#;
const JOB: &str = r#"{"domain":"api","descriptor":{"job":"7"}}"#;

/// A client of an API whose clock stands at 2023-11-14T22:13:20Z until it is moved.
async fn start() -> (Client, VirtualClock) {
    start_with(RULES).await
}

/// Starts an API with these rules.
pub(super) async fn start_with(rules: &str) -> (Client, VirtualClock) {
    let clock = VirtualClock::new();
    let domain = file::load("r.yaml", rules, &Defaults::default()).unwrap();
    let limiter = Limiter::builder().clock(clock.clone()).domain(domain).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, api(limiter)));
    (Client::at(address).await, clock)
}

fn api(limiter: Limiter) -> HttpApi {
    let bounds = Bounds::default();
    let decider = Decider::new("test", limiter.clone(), Metrics::default());
    let rate_limit = RateLimit { decider: decider.clone(), bounds, headers: None, body: None };
    HttpApi {
        decider,
        renderer: Renderer::new(Headers::default()),
        bounds,
        health: Health::new(limiter),
        rate_limit,
        tokens: None,
        client_ip: Arc::new(ClientIp::new()),
        peer: Ipv4Addr::LOCALHOST.into(),
        cross_site: false,
        json_forms: false,
        memory: tidegate_server::memory::Memory::of(1 << 30, tidegate_server::memory::Source::Setting),
        links: None,
    }
}

async fn serve(listener: TcpListener, api: HttpApi) {
    while let Ok((stream, _)) = listener.accept().await {
        let api = api.clone();
        let service = service_fn(move |request| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        let http1 = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http1.serve_connection(TokioIo::new(stream), service));
    }
}

#[tokio::test]
async fn a_denied_request_passes_exactly_when_it_was_told_to_return() {
    let (mut client, clock) = start().await;
    assert_eq!(client.check(ORDER).await.header("ratelimit"), Some(r#""order:once";r=0;t=40"#));
    let denied = client.check(ORDER).await;
    assert_eq!(denied.json()["limits"][0]["retry_after_ms"], 40_000);
    let retry_s: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((40..=44).contains(&retry_s), "{retry_s}");
    clock.advance_us(39_999_999);
    assert_eq!(client.check(ORDER).await.status, 429);
    clock.advance_us(1);
    assert_eq!(client.check(ORDER).await.status, 200);
}

#[tokio::test]
async fn an_element_of_a_batch_is_what_the_request_alone_would_get() {
    let ((mut alone, _), (mut listed, _)) = (start().await, start().await);
    for _ in 0..2 {
        let single = alone.check(ORDER).await;
        let element = listed.check(format!("[{ORDER}]")).await.json()[0].take();
        assert_eq!(element["status"], single.status.as_u16());
        assert_eq!(element["body"], single.json());
        for (name, value) in element["headers"].as_object().unwrap() {
            assert_eq!(value.as_str(), single.header(name));
        }
    }
}

#[tokio::test]
async fn renewing_starts_the_time_out_anew() {
    let (mut client, clock) = start().await;
    let acquired = client.post("/v1/acquire", JOB).await.json();
    assert_eq!(acquired["expires_at"], "2023-11-14T22:14:20Z");
    let held = json!({ "permit": acquired["permit"] }).to_string();
    clock.advance_us(59_500_000);
    let renewed = client.post("/v1/renew", held).await;
    assert_eq!(renewed.json()["expires_at"], "2023-11-14T22:15:19.500Z");
    clock.advance_us(59_000_000);
    assert_eq!(client.post("/v1/acquire", JOB).await.status, 429);
}

#[tokio::test]
async fn a_permit_that_has_expired_is_gone() {
    let (mut client, clock) = start().await;
    let acquired = client.post("/v1/acquire", JOB).await.json();
    let held = json!({ "permit": acquired["permit"] }).to_string();
    clock.advance_us(60_000_000);
    assert_eq!(client.post("/v1/renew", held.clone()).await.status, 404);
    assert_eq!(client.post("/v1/release", held).await.status, 204);
    assert_eq!(client.post("/v1/acquire", JOB).await.status, 200);
}

#[tokio::test]
async fn a_settlement_tells_what_a_check_tells_and_an_expired_reservation_is_gone() {
    let (mut client, clock) = start().await;
    let reserved = client.post("/v1/reserve", ORDER).await.json();
    assert_eq!(reserved["expires_at"], "2023-11-14T22:14:20Z");
    let settled = client.post("/v1/settle", json!({ "id": reserved["id"], "cost": 0 }).to_string()).await;
    let peek = r#"{"domain":"api","descriptor":{"order":"17"},"cost":0}"#;
    assert_eq!(settled.json()["limits"], client.check(peek).await.json()["limits"]);

    let reserved = client.post("/v1/reserve", ORDER).await.json();
    clock.advance_us(60_000_000);
    let late = client.post("/v1/settle", json!({ "id": reserved["id"], "cost": 0 }).to_string()).await;
    assert_eq!(late.status, 410);
}
