//! `POST /v1/check` with one request.

use serde_json::json;

use super::support::Service;

#[tokio::test]
async fn a_request_within_its_limit_is_200_and_says_what_is_left() {
    let mut service = Service::start().await;
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let answer = service.check(body).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""user:steady";q=5;w=86400"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""user:steady";r=4;t=17280"#));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("4"));
    assert_eq!(answer.header("retry-after"), None);
    let limit = json!({
        "rule": "user", "name": "steady", "limit": 5, "remaining": 4,
        "reset_after_ms": 17_280_000, "retry_after_ms": null, "shadow": false,
    });
    let decided_by = json!({ "rule": "user", "name": "steady" });
    let whole = json!({ "allowed": true, "decided_by": decided_by, "source": "memory", "limits": [limit] });
    assert_eq!(answer.json(), whole);
}

#[tokio::test]
async fn a_request_over_its_limit_is_429_and_says_when_to_return() {
    let mut service = Service::start().await;
    let body = r#"{"domain":"api","descriptor":{"order":"17"}}"#;
    assert_eq!(service.check(body).await.status, 200);
    let answer = service.check(body).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let retry_s: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    // A day, without the moment since, and with the jitter.
    assert!((86_370..=86_405).contains(&retry_s), "{retry_s}");
    let problem = answer.json();
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(problem["violated-policies"], json!(["order:once"]));
    assert_eq!((&problem["retry_after"], &problem["allowed"]), (&json!(retry_s), &json!(false)));
    assert_eq!(
        (&problem["limit"], &problem["window"], &problem["scope"]),
        (&json!(1), &json!(86_400), &json!("order"))
    );
    let frees_after_ms = problem["limits"][0]["retry_after_ms"].as_u64().unwrap();
    assert!((86_370_000..=86_400_000).contains(&frees_after_ms), "{frees_after_ms}");
}

#[tokio::test]
async fn both_forms_of_a_request_share_a_counter() {
    let mut service = Service::start().await;
    let short = service.check(r#"{"domain":"api","descriptor":{"user":"ann"},"cost":2}"#).await;
    assert_eq!(short.header("x-ratelimit-remaining"), Some("3"));
    let entries =
        r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}],"cost":2}],"cost":9}"#;
    assert_eq!(service.check(entries).await.header("x-ratelimit-remaining"), Some("1"));
    let escaped = r#"{"domain":"\u0061pi","descriptor":{"us\u0065r":"\u0061nn"}}"#;
    assert_eq!(service.check(escaped).await.header("x-ratelimit-remaining"), Some("0"));
}

#[tokio::test]
async fn the_order_of_an_objects_members_is_the_order_of_entries() {
    let rules = "domain: api\ndescriptors:\n  - key: b\n    descriptors:\n      - key: a\n        rate_limit: { unit: minute, requests_per_unit: 3 }\n";
    let mut service = Service::with(rules, &[]).await;
    let matched = service.check(r#"{"domain":"api","descriptor":{"b":"1","a":"2"}}"#).await;
    assert_eq!(matched.json()["limits"][0]["rule"], "b/a");
    let other = service.check(r#"{"domain":"api","descriptor":{"a":"2","b":"1"}}"#).await;
    assert_eq!(other.json()["limits"], json!([]));
}

#[tokio::test]
async fn where_no_limit_applies_it_is_200_without_limits() {
    let mut service = Service::start().await;
    for body in [
        r#"{"domain":"nobody","descriptor":{"user":"ann"}}"#,
        r#"{"domain":"api","descriptor":{"colour":"red"}}"#,
    ] {
        let answer = service.check(body).await;
        assert_eq!(answer.status, 200);
        let nothing = json!({ "allowed": true, "decided_by": null, "source": "memory", "limits": [] });
        assert_eq!(answer.json(), nothing);
        assert_eq!(answer.header("ratelimit"), None);
    }
}

#[tokio::test]
async fn a_limit_in_shadow_is_told_and_denies_nothing() {
    let mut service = Service::start().await;
    let body = r#"{"domain":"api","descriptor":{"trial":"x"}}"#;
    service.check(body).await;
    let answer = service.check(body).await;
    assert_eq!((answer.status.as_u16(), answer.header("ratelimit")), (200, None));
    assert_eq!(answer.json()["limits"][0]["shadow"], true);
}

#[tokio::test]
async fn cost_0_peeks() {
    let mut service = Service::start().await;
    for _ in 0..3 {
        let answer = service.check(r#"{"domain":"api","descriptor":{"order":"1"},"cost":0}"#).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-remaining")), (200, Some("1")));
    }
}

#[tokio::test]
async fn all_descriptors_are_charged_or_none() {
    let mut service = Service::start().await;
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]},{"entries":[{"key":"order","value":"1"}]}]}"#;
    assert_eq!(service.check(body).await.status, 200);
    let denied = service.check(body).await;
    assert_eq!((denied.status.as_u16(), service.left("user", "ann").await), (429, Some(4)));
    assert_eq!(denied.json()["violated-policies"], json!(["order:once"]));
    let told: Vec<_> = denied.header("ratelimit").unwrap().split(", ").collect();
    assert!(told[0].starts_with(r#""user:steady";r=4;t="#) && told[1].starts_with(r#""order:once";r=0;t="#));
}

#[tokio::test]
async fn decisions_are_counted() {
    let mut service = Service::start().await;
    for _ in 0..3 {
        service.check(r#"{"domain":"api","descriptor":{"order":"1"}}"#).await;
    }
    let order = ["allowed", "denied"].map(|outcome| service.decisions("api", "order", outcome));
    assert_eq!(order, [1, 2]);
}

#[tokio::test]
async fn without_any_rules_it_is_503() {
    let mut service = Service::with("", &[]).await;
    for (path, body) in [
        ("/v1/check", r#"{"domain":"api","descriptor":{"user":"ann"}}"#),
        ("/v1/check", "[]"),
        ("/v1/acquire", r#"{"domain":"api","descriptor":{"job":"1"}}"#),
    ] {
        let answer = service.post(path, body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.detail().as_str()),
            (503, "no rate limit configuration loaded")
        );
    }
}
