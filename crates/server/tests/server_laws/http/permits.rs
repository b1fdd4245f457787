//! `POST /v1/acquire`, `/v1/renew`, `/v1/release`.

use jiff::Timestamp;
use serde_json::json;

use super::support::{Answer, Service};
use crate::support::wall_time;

const JOB: &str = r#"{"domain":"api","descriptor":{"job":"7"}}"#;

fn permit(answer: &Answer) -> String {
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/json")));
    let permit = answer.json()["permit"].clone();
    json!({ "permit": permit }).to_string()
}

#[tokio::test]
async fn at_most_so_many_hold_a_permit_and_a_release_frees_it() {
    let mut service = Service::start().await;
    let first = service.post("/v1/acquire", JOB).await;
    let expires_at: Timestamp = first.json()["expires_at"].as_str().unwrap().parse().unwrap();
    let left_s = expires_at.as_second() - wall_time().as_second();
    assert!((3_570..=3_600).contains(&left_s), "{left_s}");
    let denied = service.post("/v1/acquire", JOB).await;
    assert_eq!(
        (denied.status.as_u16(), denied.header("content-type")),
        (429, Some("application/problem+json"))
    );
    assert_eq!(denied.json()["violated-policies"], json!(["job:concurrency"]));
    assert!(denied.header("retry-after").is_some());

    let released = service.post("/v1/release", permit(&first)).await;
    assert_eq!((released.status.as_u16(), released.body.len()), (204, 0));
    assert_eq!(service.post("/v1/acquire", JOB).await.status, 200);
}

#[tokio::test]
async fn releasing_twice_is_no_error_and_frees_nobody_elses_slot() {
    let mut service = Service::start().await;
    let first = permit(&service.post("/v1/acquire", JOB).await);
    assert_eq!(service.post("/v1/release", first.clone()).await.status, 204);
    assert_eq!(service.post("/v1/acquire", JOB).await.status, 200);
    assert_eq!(service.post("/v1/release", first).await.status, 204);
    assert_eq!(service.post("/v1/acquire", JOB).await.status, 429);
}

#[tokio::test]
async fn a_permit_that_is_held_is_renewed_and_one_that_is_released_is_not() {
    let mut service = Service::start().await;
    let held = permit(&service.post("/v1/acquire", JOB).await);
    assert_eq!(permit(&service.post("/v1/renew", held.clone()).await), held);
    service.post("/v1/release", held.clone()).await;
    let gone = service.post("/v1/renew", held).await;
    assert_eq!(gone.status, 404);
    assert!(gone.detail().contains("acquire a new one"));
}

#[tokio::test]
async fn where_no_limit_on_holders_applies_a_permit_holds_nothing() {
    let mut service = Service::start().await;
    for _ in 0..3 {
        let answer = service.post("/v1/acquire", r#"{"domain":"api","descriptor":{"user":"ann"}}"#).await;
        assert!(answer.json()["expires_at"].is_null());
        let held = permit(&answer);
        assert!(service.post("/v1/renew", held.clone()).await.json()["expires_at"].is_null());
        assert_eq!(service.post("/v1/release", held).await.status, 204);
    }
    assert_eq!(service.left("user", "ann").await, Some(5));
}

#[tokio::test]
async fn a_permit_that_was_not_given_out_is_400() {
    let mut service = Service::start().await;
    for path in ["/v1/renew", "/v1/release"] {
        for (body, reason) in [
            ("", "the body is empty"),
            ("{}", "missing field `permit`"),
            (r#"{"permit":7}"#, "expected a string"),
            (r#"{"permit":""}"#, "its end is missing"),
            (r#"{"permit":"***"}"#, "it is not base64url"),
            (r#"{"permit":"AgAA"}"#, "version 2"),
            (r#"{"permit":"AQ","lease":1}"#, "unknown field `lease`"),
            (r#"["AQ"]"#, "expected an object"),
        ] {
            let answer = service.post(path, body).await;
            assert_eq!(answer.status, 400, "{path} {body}");
            assert!(answer.detail().contains(reason), "{path} {body}: {}", answer.detail());
        }
    }
}

#[tokio::test]
async fn a_permit_takes_one_slot() {
    let mut service = Service::start().await;
    for body in [
        r#"{"domain":"api","descriptor":{"job":"7"},"cost":2}"#,
        r#"{"domain":"api","descriptors":[{"entries":[{"key":"job","value":"7"}],"cost":0}]}"#,
        r#"[{"domain":"api","descriptor":{"job":"7"}}]"#,
    ] {
        let answer = service.post("/v1/acquire", body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
    }
    assert_eq!(service.post("/v1/acquire", JOB).await.status, 200);
}
