//! `vectors/identity.json`: what layers ask, and which counters they are charged to.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tidegate::rules::file::window_of;
use tidegate::{Domain, LimitSpec, Limiter};
use tidegate_middleware::key::by_header;
use tidegate_middleware::{Decider, RateLimitLayer, RateLimited};
use tidegate_testkit::vector::{IdentityAsk, IdentityCase, IdentityTally, identity_cases};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::layer::{Caller, client_of, serve};
use crate::stub::Stub;

fn spec(written: &Value) -> LimitSpec {
    let window = window_of(written["per"].as_str().unwrap()).unwrap();
    let mut spec = LimitSpec::new(written["requests"].as_u64().unwrap(), window);
    if let Some(burst) = written["burst"].as_u64() {
        spec = spec.burst(burst);
    }
    match written["name"].as_str() {
        Some(name) => spec.named(name),
        None => spec,
    }
}

fn layers(decider: impl Into<Decider>, case: &IdentityCase) -> Vec<RateLimitLayer> {
    let decider = decider.into();
    let layer = |written: &Value| {
        let layer = RateLimitLayer::new(decider.clone()).key(by_header("x-client"));
        let layer = if let Some(text) = written["limits"].as_str() {
            layer.limits(text).unwrap()
        } else {
            let specs: Vec<_> = written["limits"].as_array().unwrap().iter().map(spec).collect();
            layer.limits_in("apps", &specs).unwrap()
        };
        match written["name"].as_str() {
            Some(name) => layer.name(name),
            None => layer,
        }
    };
    case.limiters.iter().map(layer).collect()
}

/// What is left of each limit, as a handler behind the layer sees it.
async fn left_after(layer: &RateLimitLayer, ask: &IdentityAsk) -> Vec<u64> {
    async fn told(request: Request<Body>) -> String {
        let RateLimited(decision) = request.extensions().get().unwrap();
        let left: Vec<_> = decision.limits().map(|limit| limit.remaining).collect();
        json!(left).to_string()
    }
    let (method, template) = match &ask.template {
        Some(template) => template.split_once(' ').unwrap(),
        None => ("GET", ""),
    };
    let request = Request::builder().method(method).uri(&ask.path).header("x-client", &ask.client);
    let request = request.header("x-identifier", ask.identifier.as_deref().unwrap_or_default());
    let request = request.body(Body::empty()).unwrap();
    let response = if template.is_empty() {
        let service =
            service_fn(async |request| Ok::<_, Infallible>(Response::new(Body::from(told(request).await))));
        layer.layer(service).oneshot(request).await.unwrap().map(Body::new)
    } else {
        Router::new().route(template, any(told).layer(layer.clone())).oneshot(request).await.unwrap()
    };
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{body:?}"))
}

fn apps() -> Limiter {
    Limiter::builder().domain(Domain::new("apps").inline_limits(100)).build().unwrap()
}

#[tokio::test]
async fn layers_count_in_their_process_as_the_vectors_say() {
    for case in identity_cases() {
        let layers = layers(apps(), &case);
        let mut tally = IdentityTally::default();
        for ask in &case.asks {
            let left = left_after(&layers[ask.limiter], ask).await;
            assert_eq!(left, tally.left_after(ask), "{}: {ask:?}", case.name);
        }
    }
}

#[tokio::test]
async fn layers_send_to_a_service_what_the_vectors_say_and_are_counted_there() {
    for case in identity_cases() {
        let stub = Stub::start().await;
        let layers = layers(client_of(&stub), &case);
        let mut tally = IdentityTally::default();
        for (number, ask) in case.asks.iter().enumerate() {
            let left = left_after(&layers[ask.limiter], ask).await;
            assert_eq!(left, tally.left_after(ask), "{}: {ask:?}", case.name);
            let asked = stub.asked();
            let descriptor = &asked[number].1["descriptors"][0];
            let entries: Vec<_> =
                ask.sent.entries.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
            assert_eq!(descriptor["entries"], json!(entries), "{}", case.name);
            let limits = ask.sent.limits.iter().map(|limit| {
                let mut sent = json!({ "requests": limit.requests, "per": limit.per });
                limit.burst.iter().for_each(|burst| sent["burst"] = json!(burst));
                limit.name.iter().for_each(|name| sent["name"] = json!(name));
                sent
            });
            assert_eq!(descriptor["limits"], limits.collect::<Value>(), "{}", case.name);
        }
    }
}

/// How many of these requests pass.
async fn passes(caller: &Caller, requests: &[(Method, String)]) -> usize {
    let mut passed = 0;
    for (method, path) in requests {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", caller.address));
        passed += usize::from(
            caller.send(request.body(http_body_util::Full::default()).unwrap()).await.status != 429,
        );
    }
    passed
}

/// However an app is put together, whoever varies the path is limited all the same.
#[tokio::test]
async fn no_path_and_no_method_that_a_client_makes_up_is_a_way_round_a_limit() {
    let limited = || RateLimitLayer::new(apps()).limits("3/minute").unwrap();
    let inner = || Router::new().route("/{page}", any(async || "page"));
    let apps = [
        ("a route", Router::new().route("/t/{tenant}/{page}", any(async || "page")).layer(limited())),
        ("nested, with the layer inside", Router::new().nest("/t/{tenant}", inner().layer(limited()))),
        ("nested, with the layer outside", Router::new().nest("/t/{tenant}", inner()).layer(limited())),
        ("a nested service", Router::new().nest_service("/t/{tenant}", limited().layer(inner()))),
        ("a nested service with routes", Router::new().nest_service("/t/{tenant}", inner().layer(limited()))),
        ("a fallback", Router::new().fallback(async || "nothing").layer(limited())),
        (
            "a nested fallback",
            Router::new().nest("/t/{tenant}", Router::new().fallback(async || "x").layer(limited())),
        ),
        ("around it all", Router::new().fallback_service(limited().layer(inner()))),
        ("a wildcard", Router::new().route("/{*rest}", any(async || "page")).layer(limited())),
    ];
    for (what, app) in apps {
        let caller = serve(app).await;
        let paths: Vec<_> = (0..8).map(|number| (Method::GET, format!("/t/{number}/{number}"))).collect();
        assert_eq!(passes(&caller, &paths).await, 3, "{what}");
        let methods: Vec<_> = (0..8)
            .map(|number| (Method::from_bytes(format!("M{number}").as_bytes()).unwrap(), "/t/1/1".to_owned()))
            .collect();
        assert!(passes(&caller, &methods).await <= 3, "{what}: by methods");
    }
}

#[tokio::test]
async fn layers_that_are_made_per_request_are_one() {
    let limiter = apps();
    let making = service_fn(move |request: Request<Body>| {
        let layer = RateLimitLayer::new(limiter.clone()).limits("20/minute").unwrap();
        layer.layer(service_fn(async |_| Ok::<_, Infallible>(Response::new(Body::empty())))).oneshot(request)
    });
    let outer = RateLimitLayer::new(apps()).limits("1000/minute").unwrap().layer(making);
    let mut left = Vec::new();
    for _ in 0..3 {
        let response = outer.clone().oneshot(Request::new(Body::empty())).await.unwrap();
        left.push(response.headers()["x-ratelimit-remaining"].to_str().unwrap().to_owned());
    }
    assert_eq!(left, ["19", "18", "17"]);
}
