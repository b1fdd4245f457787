//! What handlers see, and check themselves.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tidegate_middleware::key::by_header;
use tidegate_middleware::{Denied, Limited, RateLimitLayer, RateLimited, WhenStoreFails};

use super::{client_of, limited, serve};
use crate::stub::{Mode, Stub};

#[tokio::test]
async fn a_handler_sees_the_decision() {
    async fn handler(RateLimited(decision): RateLimited) -> String {
        decision.remaining().unwrap().to_string()
    }
    let app = Router::new().route("/", get(handler)).layer(limited("5/minute"));
    let caller = serve(app.route("/bare", get(handler))).await;
    assert_eq!(caller.get("/").await.body, "4");
    assert_eq!(caller.get("/").await.body, "3");
    assert_eq!(caller.get("/bare").await.status, 500, "there is no layer around it");
}

#[tokio::test]
async fn a_handler_may_check_itself_when_it_knows_the_cost() {
    async fn handler(limited: Limited, body: String) -> Result<&'static str, Denied> {
        limited.check(body.len() as u64).await?;
        Ok("done")
    }
    let app = Router::new().route("/", axum::routing::post(handler)).layer(limited("10/minute").deferred());
    let caller = serve(app).await;
    let post = async |body: &'static str| {
        let request = http::Request::post(format!("http://{}/", caller.address)).body(body.into()).unwrap();
        caller.send(request).await
    };
    let seen = post("1234567").await;
    assert_eq!((seen.status, seen.header("x-ratelimit-remaining")), (200, Some("3")));
    let denied = post("1234").await;
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/problem+json")));
    assert!(denied.header("retry-after").is_some());
    assert_eq!(post("123").await.status, 200);
}

#[tokio::test]
async fn a_handler_may_reserve_and_pay_for_what_was_used() {
    async fn handler(limited: Limited, used: String) -> Result<String, Denied> {
        let estimate = limited.reserve(600, std::time::Duration::from_mins(1)).await?;
        Ok(estimate.settle(used.parse().unwrap()).await.to_string())
    }
    let layer = limited("1000/minute").deferred();
    let caller = serve(Router::new().route("/", axum::routing::post(handler)).layer(layer)).await;
    for (used, status, body) in [("100", 200, "true"), ("500", 200, "true"), ("1", 429, "")] {
        let request = http::Request::post(format!("http://{}/", caller.address)).body(used.into()).unwrap();
        let seen = caller.send(request).await;
        assert_eq!(seen.status, status);
        assert!(seen.body.contains(body) && seen.header("ratelimit").is_some());
    }
}

#[tokio::test]
async fn the_error_of_the_service_inside_is_the_only_one() {
    use tower::{Layer, ServiceExt};
    let failing =
        tower::service_fn(|_: http::Request<String>| async { Err::<http::Response<String>, _>("broken") });
    let service = limited("1/minute").layer(failing);
    let ask = || http::Request::new(String::new());
    assert_eq!(service.clone().oneshot(ask()).await.err(), Some("broken"));
    assert_eq!(service.oneshot(ask()).await.unwrap().status(), 429);
}

async fn reserving(limited: Limited) -> Result<&'static str, Denied> {
    let estimate = limited.reserve(600, std::time::Duration::from_mins(1)).await?;
    estimate.settle(600).await;
    Ok("done")
}

#[tokio::test]
async fn denials_of_a_handler_are_answered_like_those_of_the_layer() {
    let layer = limited("1000/minute").deferred().on_reject(|rejection| {
        let mut response = rejection.response;
        let path = rejection.head.path().parse().unwrap();
        response.headers_mut().insert("x-rejected", path);
        response
    });
    let caller = serve(Router::new().route("/", get(reserving)).layer(layer)).await;
    assert_eq!(caller.get("/").await.status, 200);
    let denied = caller.get("/").await;
    assert_eq!((denied.status, denied.header("x-rejected")), (429, Some("/")));
    let denied = caller.with("/", &[("content-type", "application/grpc")]).await;
    assert_eq!((denied.status, denied.header("grpc-status")), (200, Some("8")));
}

#[tokio::test]
async fn an_estimate_that_the_layer_denies_is_not_charged() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    let client = client_of(&stub);
    let layer = RateLimitLayer::new(client.clone()).name("one").key(by_header("x-user")).deferred();
    let layer = layer.on_store_error(WhenStoreFails::Deny).limits("1000/minute").unwrap();
    let caller = serve(Router::new().route("/", get(reserving)).layer(layer)).await;
    for _ in 0..3 {
        assert_eq!(caller.with("/", &[("x-user", "ann")]).await.status, 429);
    }
    let limits = client.inline_limits("apps", &[tidegate::per_minute(1_000)]).unwrap();
    let look = tidegate::Request::new("apps", [("route", "one"), ("client", "ann")]).limits(&limits).cost(0);
    assert_eq!(client.peek(&look).await.remaining(), Some(1_000));
}

#[tokio::test]
async fn settling_that_fails_is_tried_again() {
    let stub = Arc::new(Stub::start().await);
    let layer = RateLimitLayer::new(client_of(&stub)).deferred().limits("1000/minute").unwrap();
    let within = Arc::clone(&stub);
    let handler = move |limited: Limited| async move {
        let estimate = limited.reserve(600, std::time::Duration::from_mins(1)).await?;
        within.mode(Mode::Saying(503));
        let settled = estimate.settle(70).await;
        within.mode(Mode::Well);
        Ok::<_, Denied>(settled.to_string())
    };
    let caller = serve(Router::new().route("/", get(handler)).layer(layer)).await;
    assert_eq!(caller.get("/").await.body, "false");
    let before = tokio::time::Instant::now();
    while !stub.answered().iter().any(|body| body.contains(r#""estimate":600,"cost":70"#)) {
        assert!(before.elapsed() < std::time::Duration::from_secs(20), "it stays charged");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
