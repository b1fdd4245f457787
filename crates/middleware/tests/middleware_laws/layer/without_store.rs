//! A layer over a service, and without it.

use serde_json::Value;
use tidegate_client::{Client, Fallback};
use tidegate_middleware::{RateLimitLayer, WhenStoreFails};

use super::{app, client_of, serve};
use crate::stub::{Mode, Stub};

#[tokio::test]
async fn what_the_service_rendered_is_passed_on_byte_by_byte() {
    let stub = Stub::start().await;
    let layer = RateLimitLayer::new(client_of(&stub)).name("home").limits("1/minute").unwrap();
    let caller = serve(app(layer)).await;
    let passed = caller.get("/").await;
    assert_eq!((passed.status, passed.body.as_str()), (200, "hello"));
    assert_eq!(passed.header("ratelimit-policy"), Some(r#""inline:minute";q=1;w=60"#));
    let denied = caller.get("/").await;
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/problem+json")));
    assert_eq!(denied.body, stub.answered()[1]);
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-reset", "retry-after"] {
        assert!(denied.header(name).is_some(), "{name}");
    }
}

fn failing(stub: &Stub, fallback: Fallback) -> Client {
    Client::builder(stub.url()).fallback(fallback).build().unwrap()
}

#[tokio::test]
async fn without_the_service_the_fallback_is_rendered_here() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    let statuses = async |fallback| {
        let layer = RateLimitLayer::new(failing(&stub, fallback)).limits("1/minute").unwrap();
        let caller = serve(app(layer)).await;
        caller.get("/").await;
        caller.get("/").await
    };
    assert_eq!(statuses(Fallback::Allow).await.status, 200);
    for fallback in [Fallback::Local, Fallback::Deny] {
        let denied = statuses(fallback).await;
        assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/problem+json")));
        assert!(denied.header("retry-after").is_some());
        let local = fallback == Fallback::Local;
        assert_eq!(denied.header("ratelimit").is_some(), local, "only where limits are known");
        let problem: Value = serde_json::from_str(&denied.body).unwrap();
        assert_eq!(problem["source"], if local { "local" } else { "deny" });
        for member in [
            "type",
            "title",
            "status",
            "detail",
            "violated-policies",
            "retry_after",
            "limit",
            "window",
            "scope",
            "allowed",
            "decided_by",
            "source",
            "limits",
        ] {
            assert!(problem.get(member).is_some(), "{member}");
        }
    }
}

#[tokio::test]
async fn a_layer_may_say_itself_what_becomes_of_requests_meanwhile() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    for (what, fallback, status) in [
        (WhenStoreFails::Allow, Fallback::Deny, 200),
        (WhenStoreFails::Deny, Fallback::Allow, 429),
        (WhenStoreFails::Decide, Fallback::Deny, 429),
    ] {
        let layer = RateLimitLayer::new(failing(&stub, fallback)).on_store_error(what);
        assert_eq!(serve(app(layer)).await.get("/").await.status, status, "{what:?}");
    }
}

#[tokio::test]
async fn a_request_that_the_service_refuses_does_not_bring_the_app_down() {
    let stub = Stub::start().await;
    // No domain of that name takes limits from applications.
    let layer = RateLimitLayer::new(client_of(&stub)).limits_in("shop", &[tidegate::per_minute(1)]).unwrap();
    let caller = serve(app(layer)).await;
    assert_eq!([caller.get("/").await.status, caller.get("/").await.status], [200, 429]);
}
