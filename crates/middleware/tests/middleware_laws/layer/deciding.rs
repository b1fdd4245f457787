//! Who passes, and what those who do not are answered.

use std::borrow::Cow;

use axum::Router;
use axum::routing::get;
use tidegate::{Request, per_minute};
use tidegate_middleware::key::{by_async, by_fn, by_header, by_ip, by_route};
use tidegate_middleware::{ClientIp, Headers, RateLimitLayer};

use super::{app, limited, limiter, serve};
use crate::support::{body, headers};

#[tokio::test]
async fn a_denial_has_the_bytes_of_the_renderer_and_what_passes_has_its_headers() {
    let limiter = limiter();
    let caller =
        serve(app(RateLimitLayer::new(limiter.clone()).name("home").limits("2/minute").unwrap())).await;
    let first = caller.get("/").await;
    assert_eq!((first.status, first.body.as_str()), (200, "hello"));
    assert_eq!(first.header("ratelimit-policy"), Some(r#""inline:minute";q=2;w=60"#));
    assert_eq!(first.header("x-ratelimit-remaining"), Some("1"));
    assert_eq!(first.header("retry-after"), None);
    assert_eq!(caller.get("/").await.status, 200);
    let denied = caller.get("/").await;

    let limits = limiter.inline_limits("apps", &[per_minute(2)]).unwrap();
    let same = Request::new("apps", [("route", "home"), ("client", "127.0.0.1")]).limits(&limits);
    let decision = limiter.check_now(&same);
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/problem+json")));
    assert_eq!(denied.body, body(&same, &decision));
    for (name, value) in headers(Headers::default(), &same, &decision, limiter.now()) {
        assert_eq!(denied.header(&name), Some(value.as_str()));
    }
    assert!(denied.header("retry-after").is_some());
}

#[tokio::test]
async fn several_limits_of_a_text_all_count() {
    let caller = serve(app(limited("5/minute;3/hour"))).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(caller.get("/").await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert!(caller.get("/").await.body.contains(r#""violated-policies":["inline:hour"]"#));
}

type Claims<'a> = &'a [(&'a str, &'a str)];

#[tokio::test]
async fn keys_compose() {
    let session = by_async(|head| {
        let cookie = head.header("cookie").map(Cow::into_owned);
        async move {
            tokio::task::yield_now().await;
            cookie
        }
    });
    let query = by_fn(|head| head.parts().uri.query().map(str::to_owned));
    let key = by_header("x-api-key").or(session).or(query.and(by_route())).or(by_ip());
    let caller = serve(app(limited("1/minute").key(key))).await;
    let ann = [("x-api-key", "ann")];
    let cookie = [("cookie", "ann")];
    let asks: [(&str, Claims<'_>, u16); 8] = [
        ("/", &ann, 200),
        ("/", &ann, 429),
        ("/", &[("x-api-key", "bob")], 200),
        // The same text by another way is the same key: what it means is the application's affair.
        ("/", &cookie, 429),
        ("/", &[("cookie", "cid")], 200),
        ("/?q", &[], 200),
        ("/", &[], 200),
        ("/", &[], 429),
    ];
    for (path, headers, status) in asks {
        assert_eq!(caller.with(path, headers).await.status, status, "{path} {headers:?}");
    }
}

#[tokio::test]
async fn no_two_pairs_of_keys_are_one() {
    let key = by_header("x-a").and(by_header("x-b"));
    let caller = serve(app(limited("1/minute").key(key))).await;
    for (a, b) in [("x|y", "z"), ("x", "y|z"), ("x%7Cy", "z"), ("x|", "|z"), ("x||", "z")] {
        assert_eq!(caller.with("/", &[("x-a", a), ("x-b", b)]).await.status, 200, "{a} {b}");
    }
}

#[tokio::test]
async fn those_without_a_key_share_one() {
    let caller = serve(app(limited("1/minute").key(by_header("x-api-key")))).await;
    let statuses = [caller.get("/").await.status, caller.get("/?again").await.status];
    assert_eq!(statuses, [200, 429]);
}

#[tokio::test]
async fn whoever_comes_through_a_trusted_proxy_is_counted_alone() {
    let client_ip = ClientIp::new().trusted_proxies(["127.0.0.1"]).unwrap();
    let trusting = serve(app(limited("1/minute").client_ip(client_ip))).await;
    let plain = serve(app(limited("1/minute"))).await;
    for (client, status) in [("198.51.100.1", 200), ("198.51.100.2", 200), ("1.2.3.4, 198.51.100.2", 429)] {
        let claims = [("x-forwarded-for", client)];
        assert_eq!(trusting.with("/", &claims).await.status, status);
    }
    let claims = |client| [("x-forwarded-for", client)];
    assert_eq!(plain.with("/", &claims("198.51.100.1")).await.status, 200);
    assert_eq!(plain.with("/", &claims("198.51.100.2")).await.status, 429, "nobody is believed by default");
}

#[tokio::test]
async fn a_request_costs_what_the_function_says() {
    let cost = |head: &tidegate_middleware::RequestHead<'_>| {
        head.header("x-cost").map_or(1, |cost| cost.parse().unwrap())
    };
    for layer in [
        limited("10/minute").cost_by(cost),
        limited("10/minute").cost_by_async(move |head| {
            let cost = cost(head);
            async move { cost }
        }),
    ] {
        let caller = serve(app(layer)).await;
        for (cost, status, left) in [("7", 200, "3"), ("4", 429, "3"), ("0", 200, "3"), ("3", 200, "0")] {
            let seen = caller.with("/", &[("x-cost", cost)]).await;
            assert_eq!((seen.status, seen.header("x-ratelimit-remaining")), (status, Some(left)));
        }
    }
    let caller = serve(app(limited("10/minute").cost(6))).await;
    assert_eq!([caller.get("/").await.status, caller.get("/").await.status], [200, 429]);
}

#[tokio::test]
async fn routes_have_limits_of_their_own() {
    let layer = RateLimitLayer::new(limiter());
    let one = layer.clone().limits("1/minute").unwrap();
    let two = layer.limits("2/minute").unwrap();
    let users = Router::new().route("/users/{id}", get(|| async { "user" })).route_layer(two);
    let app =
        Router::new().route("/a", get(|| async {}).layer(one)).merge(users).route("/free", get(|| async {}));
    let caller = serve(app).await;
    // By the template, whatever the number.
    for (path, status) in [("/a", 200), ("/a", 429), ("/users/1", 200), ("/users/2", 200), ("/users/3", 429)]
    {
        assert_eq!(caller.get(path).await.status, status, "{path}");
    }
    for _ in 0..5 {
        assert_eq!(caller.get("/free").await.header("ratelimit"), None);
    }
    assert_eq!(caller.get("/users").await.status, 404, "a route layer does not limit what there is not");
}

#[tokio::test]
async fn descriptors_are_held_against_the_rules() {
    let layer = RateLimitLayer::new(limiter())
        .descriptors("shop", |head| [("user", head.header("x-user").unwrap_or("anonymous".into()))].into());
    let caller = serve(app(layer)).await;
    for (user, status) in [("ann", 200), ("ann", 200), ("ann", 429), ("bob", 200)] {
        let seen = caller.with("/", &[("x-user", user)]).await;
        assert_eq!(seen.status, status);
        assert!(seen.header("ratelimit-policy").unwrap().starts_with(r#""user:minute""#));
    }
}

#[tokio::test]
async fn what_is_skipped_is_not_limited() {
    let caller = serve(app(limited("0/minute").skip(|head| head.header("x-probe").is_some()))).await;
    assert_eq!(caller.get("/").await.status, 429);
    assert_eq!(caller.with("/", &[("x-probe", "1")]).await.status, 200);
}

#[tokio::test]
async fn an_application_may_answer_in_its_own_way() {
    let layer = limited("1/minute").on_reject(|rejection| {
        assert!(!rejection.decision.allowed());
        let mut response = rejection.response;
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        *response.body_mut() = format!("{} may wait", rejection.head.path()).into();
        response
    });
    let caller = serve(app(layer)).await;
    caller.get("/").await;
    let denied = caller.get("/").await;
    assert_eq!((denied.status, denied.body.as_str()), (503, "/ may wait"));
    assert!(denied.header("retry-after").is_some());
}

#[tokio::test]
async fn headers_that_the_application_sets_are_its_own() {
    let handler = || async { ([("ratelimit", "mine")], "hello") };
    let app = Router::new().route("/", get(handler)).layer(limited("5/minute"));
    let seen = serve(app).await.get("/").await;
    assert_eq!(seen.header("ratelimit"), Some("mine"));
    assert_eq!(seen.header("x-ratelimit-limit"), Some("5"));
    let quiet = serve(super::app(limited("1/minute").headers(Headers::NONE))).await;
    assert_eq!(quiet.get("/").await.header("ratelimit"), None);
    assert!(quiet.get("/").await.header("retry-after").is_some());
}

#[test]
fn limits_that_are_none_are_refused_when_the_layer_is_made() {
    let error = RateLimitLayer::new(limiter()).limits("ten/minute").err().unwrap().to_string();
    assert!(error.contains("ten/minute") && error.contains("10/minute"), "{error}");
    let nowhere = tidegate::Limiter::builder().domain(tidegate::Domain::new("apps")).build().unwrap();
    let error = RateLimitLayer::new(nowhere).limits("1/minute").err().unwrap().to_string();
    assert!(error.contains("inline_limits"), "{error}");
}

#[tokio::test]
async fn where_no_route_is_known_all_paths_and_methods_share_one() {
    use tower::{Layer, ServiceExt};
    let hello = tower::service_fn(|_: http::Request<String>| async {
        Ok::<_, &str>(http::Response::new(String::new()))
    });
    let service = limited("1/minute").layer(hello);
    let mut statuses = Vec::new();
    for (method, path) in [("GET", "/a"), ("GET", "/b"), ("POST", "/a"), ("POST", "/made-up")] {
        let request = http::Request::builder().method(method).uri(path).body(String::new()).unwrap();
        statuses.push(service.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 429, 429]);
}
