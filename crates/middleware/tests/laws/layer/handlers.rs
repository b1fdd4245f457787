//! What handlers see, and check themselves.

use axum::Router;
use axum::routing::get;
use tidegate_middleware::{Denied, Limited, RateLimited};

use super::{limited, serve};

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
