//! Each mistake in settings is told to the log, once per process: hence a program of its own.

#![expect(clippy::unwrap_used, reason = "a helper that finds nothing fails its test")]

mod log;

use http::{Request, Response};
use tidegate::{Domain, Limiter};
use tidegate_middleware::key::by_header;
use tidegate_middleware::{ClientIp, RateLimitLayer};
use tower::{Layer, ServiceExt};

use log::Log;

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limiter.clone()).name("one").limits("100/minute").unwrap()
}

/// One test: codes are told once per process, whoever asks.
#[tokio::test]
async fn each_mistake_is_told_once() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let limiter = Limiter::builder().domain(Domain::new("apps").inline_limits(10)).build().unwrap();
    let hello = tower::service_fn(|_: Request<String>| async { Ok::<_, &str>(Response::new(String::new())) });
    let ask = || Request::new(String::new());

    let fine = ClientIp::new().trusted_proxies(["10.0.0.0/8"]).unwrap().ipv6_prefix(64);
    let good = layer(&limiter).client_ip(fine).key(by_header("x-api-key"));
    good.layer(hello).oneshot(ask()).await.unwrap();
    // Told apart by their routes.
    let twice = layer(&limiter).name("two").layer(layer(&limiter).layer(hello));
    twice.oneshot(ask()).await.unwrap();
    // And by their limits.
    let hourly = layer(&limiter).limits("1000/hour").unwrap();
    hourly.layer(layer(&limiter).layer(hello)).oneshot(ask()).await.unwrap();
    for code in
        ["TRUST_ALL", "SPOOFABLE_KEY", "DOUBLE_COUNT", "LIMITER_PER_REQUEST", "IPV6_UNGROUPED"].map(in_full)
    {
        assert_eq!(log.count(&code), 0, "{code} is told of what is no mistake");
    }

    // Two that have nothing to be told apart by but their order, and charge different counters.
    let unnamed = || RateLimitLayer::new(limiter.clone()).limits("70/minute").unwrap();
    let (first, second) = (unnamed(), unnamed());
    first.layer(hello).oneshot(ask()).await.unwrap();
    assert_eq!(log.count(&in_full("UNNAMED_TWIN")), 0);
    for _ in 0..2 {
        second.layer(first.layer(hello)).oneshot(ask()).await.unwrap();
    }
    assert_eq!(log.count(&in_full("UNNAMED_TWIN")), 1);
    assert_eq!(log.count(&in_full("DOUBLE_COUNT")), 0);

    for _ in 0..2 {
        let all = ClientIp::new().trusted_proxies(["::/0"]).unwrap().ipv6_prefix(65);
        let wrong = layer(&limiter).client_ip(all).key(by_header("X-Forwarded-For"));
        wrong.layer(hello).oneshot(ask()).await.unwrap();
        // One of the two limits is the same, and is charged twice.
        let more = layer(&limiter).limits("100/minute;1000/hour").unwrap();
        more.layer(layer(&limiter).layer(hello)).oneshot(ask()).await.unwrap();
        let within = limiter.clone();
        let making = tower::service_fn(move |_: Request<String>| {
            let limiter = within.clone();
            async move {
                drop(layer(&limiter));
                Ok::<_, &str>(Response::new(String::new()))
            }
        });
        layer(&limiter).layer(making).oneshot(ask()).await.unwrap();
    }
    for code in
        ["TRUST_ALL", "SPOOFABLE_KEY", "DOUBLE_COUNT", "LIMITER_PER_REQUEST", "IPV6_UNGROUPED"].map(in_full)
    {
        assert_eq!(log.count(&code), 1, "{code}");
    }
}

fn in_full(code: &str) -> String {
    format!("TIDEGATE_{code}")
}
