//! `POST /json`.

use serde_json::json;

use super::support::Service;

const ORDER: &str = r#"{"domain":"api","descriptors":[{"entries":[{"key":"order","value":"1"}]}]}"#;

#[tokio::test]
async fn it_answers_as_grpc_does_in_protojson() {
    let mut service = Service::start().await;
    let passed = service.post("/json", ORDER).await;
    assert_eq!((passed.status.as_u16(), passed.header("content-type")), (200, Some("application/json")));
    let answer = passed.json();
    assert_eq!(answer["overallCode"], "OK");
    let current = &answer["statuses"][0]["currentLimit"];
    assert_eq!((&current["requestsPerUnit"], &current["unit"]), (&json!(1), &json!("DAY")));
    let over = service.post("/json", ORDER).await;
    assert_eq!((over.status.as_u16(), &over.json()["overallCode"]), (429, &json!("OVER_LIMIT")));
}

#[tokio::test]
async fn it_takes_both_spellings_of_a_field_and_shares_counters_with_check() {
    let mut service = Service::start().await;
    for field in ["hitsAddend", "hits_addend"] {
        let body = format!(
            r#"{{"domain":"api","descriptors":[{{"entries":[{{"key":"user","value":"ann"}}]}}],"{field}":2}}"#
        );
        assert_eq!(service.post("/json", body).await.status, 200);
    }
    assert_eq!(service.left("user", "ann").await, Some(1));
}

#[tokio::test]
async fn a_bad_body_is_400_and_charges_nothing() {
    let mut service = Service::start().await;
    for (body, reason) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "expected"),
        ("{} x", "trailing"),
        (r#"{"domian":"api"}"#, "domian"),
        (r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":5}]}]}"#, "expected a string"),
        (
            r#"{"domain":"","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#,
            "domain must not be empty",
        ),
        (r#"{"domain":"api"}"#, "descriptor list must not be empty"),
        (r#"{"domain":"api","descriptors":[{}]}"#, "must not be empty"),
    ] {
        let answer = service.post("/json", body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.detail().contains(reason), "{body}: {}", answer.detail());
    }
    assert_eq!(service.left("user", "ann").await, Some(5));
}

#[tokio::test]
async fn without_any_rules_it_is_500() {
    let mut service = Service::with("", &[]).await;
    let answer = service.post("/json", ORDER).await;
    assert_eq!(
        (answer.status.as_u16(), answer.detail().as_str()),
        (500, "no rate limit configuration loaded")
    );
}
