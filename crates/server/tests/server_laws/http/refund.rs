//! `POST /v1/refund`: what was charged and then not done comes back, never above full.

use serde_json::{Value, json};

use super::support::{Answer, RULES, Service};

const ANN: &str = r#"{"domain":"api","descriptor":{"user":"ann"}"#;

async fn give_back(service: &mut Service, body: &Value) -> Answer {
    service.post("/v1/refund", body.to_string()).await
}

#[tokio::test]
async fn what_was_taken_comes_back_and_never_more() {
    let mut service = Service::start().await;
    service.check(format!(r#"{ANN},"cost":4}}"#)).await;
    assert_eq!(service.left("user", "ann").await, Some(1));
    let answer = service.post("/v1/refund", format!(r#"{ANN},"cost":3}}"#)).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/json")));
    let limits = &answer.json()["limits"];
    assert_eq!((&limits[0]["name"], &limits[0]["remaining"]), (&json!("steady"), &json!(4)));
    assert_eq!(limits[0]["retry_after_ms"], Value::Null);
    assert_eq!(service.left("user", "ann").await, Some(4));
    let full = service.post("/v1/refund", format!(r#"{ANN},"cost":1000}}"#)).await;
    assert_eq!(full.json()["limits"][0]["remaining"], 5);
    assert_eq!(service.check(format!(r#"{ANN},"cost":6}}"#)).await.status, 429, "full is full");
}

#[tokio::test]
async fn a_cost_is_1_unless_said_and_0_gives_nothing() {
    let mut service = Service::start().await;
    service.check(format!(r#"{ANN},"cost":4}}"#)).await;
    service.post("/v1/refund", format!("{ANN}}}")).await;
    assert_eq!(service.left("user", "ann").await, Some(2));
    service.post("/v1/refund", format!(r#"{ANN},"cost":0}}"#)).await;
    assert_eq!(service.left("user", "ann").await, Some(2));
}

#[tokio::test]
async fn each_descriptor_gets_its_own_cost_back() {
    let mut service = Service::start().await;
    let body = json!({
        "domain": "api",
        "descriptors": [
            { "entries": [{ "key": "user", "value": "ann" }] },
            { "entries": [{ "key": "order", "value": "7" }], "cost": 1 },
        ],
        "cost": 3,
    });
    assert_eq!(service.check(body.to_string()).await.status, 200);
    let left = give_back(&mut service, &body).await.json();
    assert_eq!((&left["limits"][0]["remaining"], &left["limits"][1]["remaining"]), (&json!(5), &json!(1)));
}

#[tokio::test]
async fn what_no_limit_applies_to_has_nothing_to_get_back() {
    let mut service = Service::start().await;
    for domain in ["api", "nowhere"] {
        let answer = give_back(&mut service, &json!({ "domain": domain, "descriptor": { "k": "v" } })).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "limits": [] })));
    }
}

#[tokio::test]
async fn limits_of_a_request_get_theirs_back_where_the_domain_takes_them() {
    let mut service = Service::with("domain: apps\ninline_limits: { max: 2 }\n", &[]).await;
    let asked = |domain: &str| {
        let limits = json!([{ "requests": 2, "per": "minute" }]);
        json!({ "domain": domain, "descriptor": { "route": "search" }, "limits": limits, "cost": 2 })
    };
    assert_eq!(service.check(asked("apps").to_string()).await.status, 200);
    assert_eq!(service.check(asked("apps").to_string()).await.status, 429);
    let left = give_back(&mut service, &asked("apps")).await.json();
    assert_eq!((&left["limits"][0]["rule"], &left["limits"][0]["remaining"]), (&json!("inline"), &json!(2)));
    assert_eq!(service.check(asked("apps").to_string()).await.status, 200);
    assert_eq!(give_back(&mut service, &asked("nowhere")).await.status, 403);
}

#[tokio::test]
async fn a_slot_is_not_given_back_by_a_refund() {
    let mut service = Service::start().await;
    let job = r#"{"domain":"api","descriptor":{"job":"1"}}"#;
    assert_eq!(service.post("/v1/acquire", job).await.status, 200);
    assert_eq!(service.post("/v1/refund", job).await.json(), json!({ "limits": [] }));
    assert_eq!(service.post("/v1/acquire", job).await.status, 429);
}

#[tokio::test]
async fn each_of_a_list_is_given_back_alone_and_in_order() {
    let mut service = Service::start().await;
    service.check(format!(r#"{ANN},"cost":5}}"#)).await;
    let list = format!(r#"[{ANN}}}, {{"domain":"api"}}, {ANN},"cost":2}}]"#);
    let answer = service.post("/v1/refund", list).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json();
    let statuses: Vec<_> = answers.as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, [200, 400, 200]);
    assert_eq!(
        (&answers[0]["body"]["limits"][0]["remaining"], &answers[0]["headers"]),
        (&json!(1), &json!({}))
    );
    assert!(answers[1]["body"]["detail"].as_str().unwrap().starts_with("[1]: missing field"));
    assert_eq!(answers[2]["body"]["limits"][0]["remaining"], 3);
    assert_eq!(service.post("/v1/refund", "[]").await.json(), json!([]));
}

#[tokio::test]
async fn what_is_refused_gives_nothing_back_and_says_why() {
    let mut service = Service::with(RULES, &[("bounds.batch", "1")]).await;
    service.check(format!(r#"{ANN},"cost":5}}"#)).await;
    for (body, status, said) in [
        (String::new(), 400, "the body is empty"),
        (format!(r#"{ANN},"cost":-1}}"#), 400, "a whole number from 0"),
        (format!(r#"{ANN},"cost":9007199254740993}}"#), 400, "9007199254740992"),
        (format!(r#"{ANN},"ttl_ms":5}}"#), 400, "ttl_ms is for /v1/reserve only"),
        (format!("[{ANN}}},{ANN}}}]"), 400, "requests of a batch must be at most 1"),
        (format!("[{ANN}}}"), 400, "without `]`"),
    ] {
        let refused = service.post("/v1/refund", body.clone()).await;
        assert_eq!(refused.status, status, "{body}");
        assert!(refused.detail().contains(said), "{body}: {}", refused.detail());
    }
    assert_eq!(service.post_as(Some("text/plain"), "/v1/refund", format!("{ANN}}}")).await.status, 415);
    let wrong = service.get("/v1/refund").await;
    assert_eq!((wrong.status.as_u16(), wrong.header("allow")), (405, Some("POST")));
    assert_eq!(service.left("user", "ann").await, Some(0));
    let mut bare = Service::with("", &[]).await;
    assert_eq!(bare.post("/v1/refund", format!("{ANN}}}")).await.status, 503);
}
