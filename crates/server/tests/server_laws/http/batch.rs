//! `POST /v1/check` with a list.

use serde_json::json;

use super::support::{RULES, Service};

#[tokio::test]
async fn each_request_of_a_batch_is_decided_alone_and_in_order() {
    let mut service = Service::start().await;
    let order = r#"{"domain":"api","descriptor":{"order":"1"}}"#;
    let list = format!(
        r#" [ {order} , {order},{{"domain":"api","descriptors":[{{"entries":[{{"key":"user","value":"ann"}}]}}],"cost":2}}, {{"domain":"x","descriptor":{{"a":"b"}}}} ] "#
    );
    let answer = service.check(list).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/json")));
    let answers = answer.json();
    let statuses: Vec<_> = answers.as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, [json!(200), json!(429), json!(200), json!(200)]);
    assert_eq!(answers[0]["headers"]["x-ratelimit-remaining"], "0");
    assert!(answers[1]["headers"]["retry-after"].is_string());
    assert_eq!(answers[1]["body"]["violated-policies"], json!(["order:once"]));
    assert_eq!(answers[2]["headers"]["ratelimit"], r#""user:steady";r=3;t=34560"#);
    assert_eq!((&answers[3]["headers"], &answers[3]["body"]["limits"]), (&json!({}), &json!([])));
}

#[tokio::test]
async fn a_bad_element_is_400_and_the_others_are_decided() {
    let mut service = Service::start().await;
    let good = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
    let list = format!(r#"[{good},{{"domain":"api","descriptor":{{"user":5}}}},17,[],null,{good}]"#);
    let answers = service.check(list).await.json();
    let statuses: Vec<_> = answers.as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, [200, 400, 400, 400, 400, 200].map(|status| json!(status)));
    let detail = answers[1]["body"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("[1]: invalid type: integer `5`, expected a string"), "{detail}");
    assert_eq!(service.left("user", "ann").await, Some(3));
}

#[tokio::test]
async fn an_empty_batch_has_no_answers() {
    let mut service = Service::start().await;
    for list in ["[]", " [ \n] "] {
        let answer = service.check(list).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!([])));
    }
}

#[tokio::test]
async fn a_list_that_is_not_json_is_400_as_a_whole_and_charges_nothing() {
    let mut service = Service::start().await;
    let good = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
    for (list, reason) in [
        ("[".to_owned(), "the list ends at byte 1, without `]`"),
        (format!("[{good}"), "the list ends at byte 45, without `]`"),
        (format!("[{good},"), "the list ends at byte 46, without `]`"),
        (format!("[{good},]"), "[1], from byte 46: expected value"),
        (format!("[{good} {good}]"), "expected `,` or `]` at byte 46"),
        (format!("[{good}] x"), "something follows the list at byte 47"),
        (format!("[{good},{{\"domain\""), "[1], from byte 46: EOF while parsing an object"),
        ("[,]".to_owned(), "[0], from byte 1: expected value"),
    ] {
        let answer = service.check(list.clone()).await;
        assert_eq!(answer.status, 400, "{list}");
        assert!(answer.detail().contains(reason), "{list}: {}", answer.detail());
    }
    assert_eq!(service.left("user", "ann").await, Some(5));
}

#[tokio::test]
async fn a_batch_beyond_its_bound_is_400_and_charges_nothing() {
    let mut service = Service::with(RULES, &[("bounds.batch", "2")]).await;
    let good = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
    let answer = service.check(format!("[{good},{good},{good}]")).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.detail(), "requests of a batch must be at most 2 (bounds.batch), got 3");
    assert_eq!(service.left("user", "ann").await, Some(5));
    assert_eq!(service.check(format!("[{good},{good}]")).await.status, 200);
}
