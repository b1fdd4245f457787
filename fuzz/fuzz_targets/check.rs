//! Sends whatever comes as a body to the HTTP API: it is decided or refused, and never a panic. A body
//! that is refused takes nothing.

#![no_main]

use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use tidegate::{Domain, Limiter, Request, Rule, per_day};
use tidegate_middleware::{ClientIp, Headers, Renderer};
use tidegate_server::bounds::Bounds;
use tidegate_server::decider::Decider;
use tidegate_server::grpc::rate_limit::RateLimit;
use tidegate_server::health::Health;
use tidegate_server::http::HttpApi;
use tidegate_server::memory::{Memory, Source};
use tidegate_server::metrics::Metrics;
use tokio::runtime::{Builder, Runtime};

const PATHS: [&str; 8] = [
    "/v1/check",
    "/v1/acquire",
    "/v1/renew",
    "/v1/release",
    "/json",
    "/v1/reserve",
    "/v1/settle",
    "/v1/refund",
];

static API: LazyLock<(HttpApi, Runtime)> = LazyLock::new(|| {
    let domain = Domain::new("d")
        .rule(Rule::by("k").limit(per_day(1 << 53)))
        .rule(Rule::by("c").concurrency(5, std::time::Duration::from_secs(1)));
    let limiter = Limiter::builder().domain(domain).build().expect("valid rules");
    let (bounds, renderer) = (Bounds::default(), Renderer::new(Headers::default()));
    let decider = Decider::new("fuzz", limiter.clone(), Metrics::default());
    let rate_limit = RateLimit { decider: decider.clone(), bounds, headers: None, body: None };
    let health = Health::new(limiter);
    let memory = Memory::of(1 << 30, Source::Setting);
    let (client_ip, peer) = (Arc::new(ClientIp::new()), Ipv4Addr::LOCALHOST.into());
    let api = HttpApi {
        decider,
        renderer,
        bounds,
        health,
        rate_limit,
        tokens: None,
        client_ip,
        peer,
        cross_site: false,
        json_forms: false,
        links: None,
        memory,
    };
    (api, Builder::new_current_thread().enable_time().build().expect("a runtime"))
});

fuzz_target!(|input: (u8, &[u8])| {
    let (api, runtime) = &*API;
    let path = PATHS[usize::from(input.0) % PATHS.len()];
    let request =
        http::Request::post(path).body(Full::new(Bytes::copy_from_slice(input.1))).expect("a request");
    let left = || api.decider.limiter().peek_now(&Request::new("d", [("k", "v")]).cost(0)).remaining();
    let before = left();
    let status = runtime.block_on(api.answer(request)).status().as_u16();
    assert!(
        matches!(status, 200 | 204 | 400 | 403 | 404 | 409 | 410 | 413 | 429 | 503),
        "{path} answers {status}"
    );
    assert!(matches!(status, 200 | 204) || left() == before, "{path} answers {status} and takes something");
});
