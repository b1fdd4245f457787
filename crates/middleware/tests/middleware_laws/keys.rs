//! Values that clients can write, in the spelling that all languages share; and who writes odd ones is limited
//! like anybody else.

use serde::Deserialize;
use tidegate::spelling;
use tidegate_client::{Client, Fallback};
use tidegate_middleware::RateLimitLayer;
use tidegate_middleware::key::by_header;

use crate::layer::{app, serve};
use crate::stub::Stub;
use crate::support::vectors;

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    expect: String,
}

#[test]
fn values_are_spelt_as_the_vectors_say() {
    let cases: Vec<Case> = vectors("keys.json");
    assert!(cases.len() > 9);
    for Case { name, text, expect } in cases {
        assert_eq!(spelling::value(&text), expect, "{name}");
        assert_eq!(spelling::value(&expect), expect, "{name}: twice is once");
    }
}

#[test]
fn costs_are_at_most_what_a_service_takes() {
    assert_eq!([0, 1 << 53, (1 << 53) + 1, u64::MAX].map(spelling::cost), [0, 1 << 53, 1 << 53, 1 << 53]);
}

fn allowing(stub: &Stub) -> Client {
    Client::builder(stub.url()).fallback(Fallback::Allow).build().unwrap()
}

#[tokio::test]
async fn no_header_lets_a_client_past_its_limits() {
    let stub = Stub::start().await;
    let layer = RateLimitLayer::new(allowing(&stub)).name("one").key(by_header("x-api-key"));
    let caller = serve(app(layer.limits("2/minute").unwrap())).await;
    let send = async |value: &[u8]| {
        let request = http::Request::get(format!("http://{}/", caller.address));
        let value = http::HeaderValue::from_bytes(value).unwrap();
        caller.send(request.header("x-api-key", value).body(http_body_util::Full::default()).unwrap()).await
    };
    let values: [&[u8]; 4] = [b"caf\xe9", &[b'x'; 300], "grün".as_bytes(), b"a\tb"];
    for value in values {
        let statuses = [send(value).await.status, send(value).await.status, send(value).await.status];
        assert_eq!(statuses, [200, 200, 429], "{value:?}");
    }
    // What is empty is missing, and those without a key share one.
    let statuses = [send(b"").await.status, caller.get("/").await.status, send(b"").await.status];
    assert_eq!(statuses, [200, 200, 429]);
    let value = stub.asked()[0].1["descriptors"][0]["entries"][1]["value"].clone();
    assert_eq!(value, "café", "bytes are Latin-1");
}

#[tokio::test]
async fn neither_does_a_value_or_a_cost_that_a_service_refuses() {
    let stub = Stub::start().await;
    let odd = "a\nb\0".to_owned() + &"x".repeat(5_000);
    let layer = RateLimitLayer::new(allowing(&stub)).name(odd).limits("5/minute").unwrap();
    let caller = serve(app(layer.cost_by(|_| u64::MAX))).await;
    assert_eq!(caller.get("/").await.status, 429);
    let asked = &stub.asked()[0].1;
    assert_eq!(asked["cost"], 1_u64 << 53);
    let route = asked["descriptors"][0]["entries"][0]["value"].as_str().unwrap();
    assert!(route.len() <= 256 && !route.contains(char::is_control));
}
