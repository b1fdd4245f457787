//! `POST /v1/reserve`, `/v1/settle`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::support::{Answer, Service};
use crate::support::wall_time;

const RULES: &str = r"
domain: llm
descriptors:
  - key: team
    limits:
      - { name: tokens, algorithm: token_bucket, requests: 1000, per: day }
      - { name: weekly, algorithm: token_bucket, requests: 5000, per: week }
  - key: calls
    limits: [{ algorithm: token_bucket, requests: 5, per: day }]
";

const ESTIMATE: &str = r#"{"domain":"llm","descriptor":{"team":"search"},"cost":400}"#;

async fn start() -> Service {
    Service::with(RULES, &[]).await
}

async fn settle(service: &mut Service, reserved: &Answer, cost: u64) -> Answer {
    let body = json!({ "id": reserved.json()["id"], "cost": cost });
    service.post("/v1/settle", body.to_string()).await
}

/// When a reservation of a moment ago expires, which is so many seconds after it was made.
fn lasts(reserved: &Answer, seconds: i64) -> String {
    let expires_at = reserved.json()["expires_at"].as_str().unwrap().to_owned();
    let left = expires_at.parse::<Timestamp>().unwrap().as_second() - wall_time().as_second();
    assert!((seconds - 30..=seconds).contains(&left), "{expires_at} is in {left} s");
    expires_at
}

fn remaining(answer: &Answer) -> Vec<u64> {
    let body = answer.json();
    body["limits"].as_array().unwrap().iter().map(|limit| limit["remaining"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_reservation_is_answered_as_a_check_is_with_its_name_before() {
    let mut service = start().await;
    let reserved = service.post("/v1/reserve", ESTIMATE).await;
    assert_eq!((reserved.status.as_u16(), reserved.header("content-type")), (200, Some("application/json")));
    let mut other = start().await;
    let checked = other.post("/v1/check", ESTIMATE).await;
    let text = String::from_utf8(reserved.body.to_vec()).unwrap();
    let id = reserved.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 22);
    let expires_at = lasts(&reserved, 60);
    let head = format!(r#"{{"id":"{id}","expires_at":"{expires_at}","#);
    let rest = text.strip_prefix(&head).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(format!("{{{rest}"), String::from_utf8(checked.body.to_vec()).unwrap());
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-remaining"] {
        assert_eq!(reserved.header(name), checked.header(name), "{name}");
    }
}

#[tokio::test]
async fn less_gives_back_and_more_takes_into_debt() {
    let mut service = start().await;
    let reserved = service.post("/v1/reserve", ESTIMATE).await;
    let settled = settle(&mut service, &reserved, 150).await;
    assert_eq!((settled.status.as_u16(), settled.header("content-type")), (200, Some("application/json")));
    let body = settled.json();
    assert_eq!((&body["estimate"], &body["cost"]), (&json!(400), &json!(150)));
    assert_eq!(remaining(&settled), [850, 4850]);
    let members: Vec<_> = body.as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["estimate", "cost", "limits"]);
    let check = service.check(r#"{"domain":"llm","descriptor":{"team":"search"},"cost":0}"#).await;
    let named = |answer: &Value| {
        let limits = answer["limits"].as_array().unwrap().clone();
        limits.iter().map(|limit| (limit["rule"].clone(), limit["name"].clone())).collect::<Vec<_>>()
    };
    assert_eq!((remaining(&check), named(&check.json())), (remaining(&settled), named(&body)));

    let reserved = service.post("/v1/reserve", ESTIMATE).await;
    assert_eq!(remaining(&settle(&mut service, &reserved, 1_200).await), [0, 3650]);
    let denied = service.post("/v1/reserve", ESTIMATE).await;
    assert_eq!(denied.status, 429);
}

#[tokio::test]
async fn a_denial_is_that_of_a_check() {
    let mut service = start().await;
    let too_much = r#"{"domain":"llm","descriptor":{"team":"search"},"cost":1001}"#;
    let (reserved, checked) =
        (service.post("/v1/reserve", too_much).await, service.post("/v1/check", too_much).await);
    assert_eq!((reserved.status, &reserved.body), (checked.status, &checked.body));
    assert_eq!((reserved.status.as_u16(), reserved.json()["id"].clone()), (429, Value::Null));
    assert_eq!(reserved.header("content-type"), Some("application/problem+json"));
    assert_eq!(reserved.header("ratelimit"), checked.header("ratelimit"));
    assert_eq!(service.counted("ratelimit_reservations_held"), 0);
}

#[tokio::test]
async fn a_cost_of_ones_own_is_left_alone() {
    let mut service = start().await;
    let body = r#"{"domain":"llm","descriptors":[
        {"entries":[{"key":"team","value":"search"}]},
        {"entries":[{"key":"calls","value":"search"}],"cost":1}],"cost":600,"ttl_ms":1000}"#;
    let reserved = service.post("/v1/reserve", body).await;
    lasts(&reserved, 1);
    assert_eq!(remaining(&reserved), [400, 4400, 4]);
    assert_eq!(remaining(&settle(&mut service, &reserved, 100).await), [900, 4900, 4]);
}

#[tokio::test]
async fn what_is_settled_or_unknown_is_gone() {
    let mut service = start().await;
    let reserved = service.post("/v1/reserve", ESTIMATE).await;
    assert_eq!(settle(&mut service, &reserved, 0).await.status, 200);
    let again = settle(&mut service, &reserved, 0).await;
    assert_eq!((again.status.as_u16(), again.json()["title"].clone()), (410, json!("Gone")));
    assert!(again.detail().contains("reserve anew"), "{}", again.detail());

    for id in ["", "x", "AAAAAAAAAAAAAAAAAAAAAA", "not one of ours \u{1f600}"] {
        let answer = service.post("/v1/settle", json!({ "id": id, "cost": 1 }).to_string()).await;
        assert_eq!(answer.status, 410, "{id:?}");
    }
}

#[tokio::test]
async fn what_is_no_reservation_or_settlement_is_400() {
    let mut service = start().await;
    for (body, reason) in [
        ("", "the body is empty"),
        ("{}", "missing field `domain`"),
        (r#"{"domain":"llm"}"#, "missing field `descriptors`"),
        (r#"{"domain":"llm","descriptor":{"team":"a"},"ttl_ms":0}"#, "ttl_ms must be from 1 to 86400000"),
        (r#"{"domain":"llm","descriptor":{"team":"a"},"ttl_ms":86400001}"#, "got 86400001"),
        (r#"{"domain":"llm","descriptor":{"team":"a"},"ttl_ms":"1"}"#, "expected a whole number"),
        (r#"{"domain":"llm","descriptor":{"team":"a"},"ttl_ms":1.5}"#, "expected a whole number"),
        (r#"{"domain":"llm","descriptor":{"team":"a"},"cost":-1}"#, "expected a whole number"),
        (r#"{"domain":"llm","descriptor":{"team":"a"},"cost":9007199254740993}"#, "cost must be at most"),
        (r#"{"domain":"llm","descriptor":{"team":"a"},"ttl":1}"#, "unknown field `ttl`"),
        (r#"[{"domain":"llm","descriptor":{"team":"a"}}]"#, "expected an object"),
    ] {
        let answer = service.post("/v1/reserve", body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.detail().contains(reason), "{body}: {}", answer.detail());
    }
    for (body, reason) in [
        ("", "the body is empty"),
        ("{}", "missing field `id`"),
        (r#"{"id":"x"}"#, "missing field `cost`"),
        (r#"{"id":7,"cost":1}"#, "expected a string"),
        (r#"{"id":"x","cost":"1"}"#, "expected a whole number"),
        (r#"{"id":"x","cost":-1}"#, "expected a whole number"),
        (r#"{"id":"x","cost":9007199254740993}"#, "cost must be at most"),
        (r#"{"id":"x","cost":1,"domain":"llm"}"#, "unknown field `domain`"),
        (r#"["x",1]"#, "expected an object"),
    ] {
        let answer = service.post("/v1/settle", body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.detail().contains(reason), "{body}: {}", answer.detail());
    }
    for path in ["/v1/check", "/v1/acquire"] {
        let body = r#"{"domain":"llm","descriptor":{"team":"a"},"ttl_ms":5}"#;
        let answer = service.post(path, body).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.detail().contains("ttl_ms is for /v1/reserve only"), "{}", answer.detail());
    }
    assert_eq!(service.counted("ratelimit_reservations_held"), 0);
}

#[tokio::test]
async fn without_rules_nothing_is_reserved() {
    let mut service = Service::with("", &[]).await;
    assert_eq!(service.post("/v1/reserve", ESTIMATE).await.status, 503);
    assert_eq!(service.get("/v1/reserve").await.header("allow"), Some("POST"));
}

#[tokio::test]
async fn reservations_are_counted_as_checks_are() {
    let mut service = start().await;
    for cost in [400, 400, 400] {
        let body = json!({ "domain": "llm", "descriptor": { "team": "search" }, "cost": cost });
        service.post("/v1/reserve", body.to_string()).await;
    }
    let team = ["allowed", "denied"].map(|outcome| service.decisions("llm", "team", outcome));
    assert_eq!(team, [2, 1]);
}

#[tokio::test]
async fn nothing_is_kept_of_reservations_that_no_limit_applies_to() {
    let mut service = start().await;
    let body = r#"{"domain":"llm","descriptor":{"nobody":"limits"},"cost":400,"ttl_ms":60000}"#;
    for _ in 0..50 {
        let reserved = service.post("/v1/reserve", body).await;
        assert_eq!((reserved.status.as_u16(), remaining(&reserved)), (200, vec![]));
        assert_eq!(
            settle(&mut service, &reserved, 150).await.json(),
            json!({ "estimate": 400, "cost": 150, "limits": [] })
        );
    }
    assert_eq!(service.counted("ratelimit_reservations_held"), 0);
}
