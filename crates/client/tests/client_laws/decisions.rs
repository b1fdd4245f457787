//! What is sent, and the decisions that responses become.

use std::time::Duration;

use serde_json::json;
use tidegate::{Request, Source, per_hour, per_minute};
use tidegate_client::Client;

use super::stub::{Mode, Stub};
use super::{built, client_of};

#[tokio::test]
async fn a_decision_has_what_the_service_said_and_its_bytes() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let request = Request::new("shop", [("user", "ann")]);
    let first = client.check(&request).await;
    assert!(first.allowed());
    assert_eq!((first.remaining(), first.source()), (Some(2), Source::Memory));
    let by = first.decided_by().unwrap();
    assert_eq!(
        (by.rule, by.name, by.limit.requests(), by.limit.period_us()),
        ("user", "minute", 3, 60_000_000)
    );
    let rendered = first.rendered().unwrap();
    assert_eq!((rendered.status, rendered.content_type.as_str()), (200, "application/json"));
    assert_eq!(rendered.body, stub.answered()[0]);
    assert_eq!(rendered.header("ratelimit-policy"), Some(r#""user:minute";q=3;w=60"#));

    let denied = client.check(&request.clone().cost(3)).await;
    assert!(!denied.allowed());
    let rendered = denied.rendered().unwrap();
    assert_eq!((rendered.status, rendered.content_type.as_str()), (429, "application/problem+json"));
    assert_eq!(rendered.body, stub.answered()[1]);
    let retry_s: u64 = rendered.header("retry-after").unwrap().parse().unwrap();
    let retry = denied.retry_after().unwrap();
    assert!(retry <= Duration::from_secs(retry_s) && retry > Duration::ZERO);
    assert_eq!(denied.limits().count(), 1);
    assert!(denied.to_string().starts_with("denied by user (minute)"), "{denied}");
}

#[tokio::test]
async fn everything_a_request_says_is_sent() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let limits =
        client.inline_limits("apps", &[per_minute(10), per_hour(200).burst(50).named("slow")]).unwrap();
    let request = Request::new("apps", [("route", "search"), ("client", "ann")])
        .limits(&limits)
        .and([("route", "all")])
        .limits(&limits)
        .descriptor_cost(1)
        .cost(2);
    assert_eq!(client.check(&request).await.remaining(), Some(8));
    let sent = json!([{"requests": 10, "per": "minute"}, {"name": "slow", "requests": 200, "per": "hour", "burst": 50}]);
    let expected = json!({
        "domain": "apps",
        "descriptors": [
            {"entries": [{"key": "route", "value": "search"}, {"key": "client", "value": "ann"}], "limits": sent},
            {"entries": [{"key": "route", "value": "all"}], "cost": 1, "limits": sent},
        ],
        "cost": 2,
    });
    assert_eq!(stub.asked(), [("/v1/check".to_owned(), expected)]);
}

#[tokio::test]
async fn the_token_goes_with_every_request() {
    let stub = Stub::start().await;
    let client = built(Client::builder(stub.url()).token("s3cret"));
    client.check(&Request::new("shop", [("user", "ann")])).await;
    assert_eq!(stub.tokens(), ["Bearer s3cret"]);
}

#[tokio::test]
async fn peeking_charges_nothing_and_says_whether_it_would_pass() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let request = Request::new("shop", [("user", "ann")]);
    assert!(client.peek(&request.clone().cost(3)).await.allowed());
    assert!(client.check(&request.clone().cost(3)).await.allowed());
    let denied = client.peek(&request).await;
    assert!(!denied.allowed() && denied.rendered().is_none());
    assert!(denied.retry_after().is_some());
    assert_eq!(denied.remaining(), Some(0));
}

#[tokio::test]
async fn a_refund_is_given_back_in_the_service() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let request = Request::new("shop", [("user", "ann")]).cost(3);
    assert!(client.check(&request).await.allowed());
    client.refund(&request.clone().cost(2)).await;
    assert_eq!(client.peek(&request.clone().cost(0)).await.remaining(), Some(2));
    client.refund(&request).await;
    assert_eq!(client.peek(&request.clone().cost(0)).await.remaining(), Some(3), "never above full");
    // Limits that it brings along get theirs back.
    let limits = client.inline_limits("apps", &[per_minute(10)]).unwrap();
    let own = Request::new("apps", [("route", "search")]).limits(&limits).descriptor_cost(4);
    assert_eq!(client.check(&own).await.remaining(), Some(6));
    client.refund(&own).await;
    let sent = json!([{"requests": 10, "per": "minute"}]);
    let descriptor = json!({"entries": [{"key": "route", "value": "search"}], "cost": 4, "limits": sent});
    let expected = json!({"domain": "apps", "descriptors": [descriptor], "cost": 1});
    assert_eq!(stub.asked().last(), Some(&("/v1/refund".to_owned(), expected)));
    assert_eq!(client.peek(&own).await.remaining(), Some(10));
}

#[tokio::test]
async fn connections_are_kept() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    for _ in 0..10 {
        client.check(&Request::new("shop", [("user", "ann")])).await;
    }
    assert_eq!(stub.connections(), 1);
}

#[tokio::test]
async fn waiting_for_ones_turn_asks_again_when_the_service_says() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let request = Request::new("shop", [("user", "ann")]).cost(3);
    assert!(client.until_ready(&request, Duration::ZERO).await.allowed());
    // The stub's clock stands still: it says a minute, and that is too long.
    assert!(!client.until_ready(&request, Duration::from_secs(5)).await.allowed());
    assert_eq!(stub.asked().len(), 2);
}

#[test]
fn an_address_that_is_none_is_refused_with_an_example() {
    for wrong in ["", "localhost:8080", "/x", "ftp://a", "http://", "https://", "http://a b"] {
        let error = Client::builder(wrong).build().expect_err(wrong).to_string();
        assert!(error.contains(&format!("{wrong:?}")) && error.contains("http://localhost:8080"), "{error}");
    }
    assert!(Client::builder("http://a").token("a\nb").build().is_err());
    assert!(Client::builder("http://a").local_limits([per_minute(5).burst(0)]).build().is_err());
}

#[tokio::test]
async fn limits_that_the_wire_has_no_words_for_are_refused_when_prepared() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    for unspeakable in [per_minute(5).queue(3), per_minute(5).sub_windows(6)] {
        assert!(client.inline_limits("apps", &[unspeakable]).is_err());
    }
}

#[tokio::test]
async fn peeking_weighs_each_descriptor_by_its_own_cost() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let both = |ann: u64, bob: u64| {
        let ann = Request::new("shop", [("user", "ann")]).descriptor_cost(ann);
        ann.and([("user", "bob")]).descriptor_cost(bob)
    };
    for (ann, bob, passes) in [(3, 1, true), (4, 1, false), (1, 4, false), (1, 1, true), (0, 3, true)] {
        let decision = client.peek(&both(ann, bob)).await;
        assert_eq!((decision.allowed(), decision.limits().count()), (passes, 2), "{ann} and {bob}");
        assert_eq!((decision.remaining(), decision.decided_by().unwrap().name), (Some(3), "minute"));
    }
}

#[tokio::test]
async fn a_window_that_is_none_is_no_reason_to_panic() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    for policies in [r#""user:minute";q=3;w=0"#, r#""user:minute";q=3;w=999999999999"#, "", "?;w=x"] {
        stub.mode(Mode::Policies(policies));
        let decision = client.check(&Request::new("shop", [("user", "ann")])).await;
        let limit = decision.decided_by().unwrap();
        assert_eq!((limit.name, limit.limit.period_us()), ("minute", 60_000_000));
    }
}
