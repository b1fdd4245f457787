//! Limits that a request of `POST /v1/check` brings along.

use serde_json::{Value, json};

use super::support::{Answer, Service};

const RULES: &str = r"
domain: apps
inline_limits: { max: 3 }
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 100 }
";

async fn apps() -> Service {
    Service::with(RULES, &[]).await
}

async fn search(service: &mut Service, client: &str, limits: Value) -> Answer {
    let body =
        json!({ "domain": "apps", "descriptor": { "route": "search", "client": client }, "limits": limits });
    service.check(body.to_string()).await
}

#[tokio::test]
async fn limits_of_a_request_count_for_its_descriptor() {
    let mut service = apps().await;
    let limits = || json!([{ "requests": 2, "per": "minute" }, { "requests": 100, "per": "hour" }]);
    let first = search(&mut service, "ann", limits()).await;
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(
        first.header("ratelimit-policy"),
        Some(r#""inline:minute";q=2;w=60, "inline:hour";q=100;w=3600"#)
    );
    assert_eq!(search(&mut service, "ann", limits()).await.status, 200);
    let denied = search(&mut service, "ann", limits()).await;
    assert_eq!((denied.status.as_u16(), &denied.json()["scope"]), (429, &json!("inline")));
    assert_eq!(search(&mut service, "bob", limits()).await.status, 200, "another client has its own");
}

#[tokio::test]
async fn every_field_of_a_limit_is_obeyed() {
    let mut service = apps().await;
    let limits =
        json!([{ "name": "calm", "requests": 60, "per": "90s", "algorithm": "token_bucket", "burst": 3 }]);
    let answer = search(&mut service, "ann", limits).await;
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""inline:calm";q=60;w=90"#));
    assert_eq!(answer.json()["limits"][0]["remaining"], 2);
    let bucket = search(&mut service, "ann", json!([{ "requests": 60, "per": "minute", "burst": 5 }])).await;
    assert_eq!(bucket.json()["limits"][0]["remaining"], 4, "a burst makes it a token bucket");
}

#[tokio::test]
async fn they_stand_in_place_of_the_rules_for_that_descriptor_alone() {
    let mut service = apps().await;
    let body = json!({
        "domain": "apps",
        "descriptors": [
            { "entries": [{ "key": "user", "value": "ann" }], "limits": [{ "requests": 5, "per": "day" }] },
            { "entries": [{ "key": "user", "value": "ann" }] },
        ],
    });
    let answer = service.check(body.to_string()).await.json();
    let told: Vec<_> =
        answer["limits"].as_array().unwrap().iter().map(|limit| (&limit["rule"], &limit["limit"])).collect();
    assert_eq!(told, [(&json!("inline"), &json!(5)), (&json!("user"), &json!(100))]);
}

#[tokio::test]
async fn more_distinct_limits_than_the_domain_allows_are_forbidden_and_those_in_use_go_on() {
    let mut service = apps().await;
    for requests in 1..=3 {
        assert_eq!(
            search(&mut service, "ann", json!([{ "requests": requests, "per": "hour" }])).await.status,
            200
        );
    }
    let refused = search(&mut service, "ann", json!([{ "requests": 4, "per": "hour" }])).await;
    assert_eq!(refused.status, 403);
    assert!(refused.detail().contains("raise `inline_limits.max`"), "{}", refused.detail());
    assert_eq!(search(&mut service, "bob", json!([{ "requests": 3, "per": "hour" }])).await.status, 200);
}

#[tokio::test]
async fn a_domain_that_does_not_allow_them_and_one_that_there_is_not_are_forbidden() {
    let mut service = Service::start().await;
    for domain in ["api", "nowhere"] {
        let body = json!({ "domain": domain, "descriptor": { "user": "ann" }, "limits": [{ "requests": 1, "per": "day" }] });
        let refused = service.check(body.to_string()).await;
        assert_eq!(refused.status, 403, "{domain}");
        assert!(
            refused.detail().contains("allow them with `inline_limits: {max: 1000}`"),
            "{}",
            refused.detail()
        );
    }
    assert_eq!(service.left("user", "ann").await, Some(5), "nothing was taken");
}

#[tokio::test]
async fn in_a_batch_each_is_refused_for_itself() {
    let mut service = apps().await;
    let one = |domain: &str| json!({ "domain": domain, "descriptor": { "k": "v" }, "limits": [{ "requests": 1, "per": "day" }] });
    let answer = service.check(json!([one("apps"), one("nowhere"), one("apps")]).to_string()).await.json();
    let statuses: Vec<_> = answer.as_array().unwrap().iter().map(|each| each["status"].clone()).collect();
    assert_eq!(statuses, [200, 403, 429]);
    assert!(answer[1]["body"]["detail"].as_str().unwrap().starts_with("[1]: "));
}

#[tokio::test]
async fn what_makes_no_limit_is_refused_with_its_place() {
    let mut service = apps().await;
    for (limits, said) in [
        (json!([]), "limits must not be empty"),
        (json!([{ "requests": 1 }]), "missing field `per`"),
        (json!([{ "per": "day" }]), "missing field `requests`"),
        (json!([{ "requests": -1, "per": "day" }]), "a whole number"),
        (json!([{ "requests": 1, "per": "fortnight" }]), "limits[0]: per: must be one of second"),
        (json!([{ "requests": 1, "per": "0s" }]), "longer than 0"),
        (json!([{ "requests": 1, "per": "day", "algorithm": "token_buket" }]), "did you mean token_bucket?"),
        (
            json!([{ "requests": 1, "per": "day", "algorithm": "fixed_window", "burst": 2 }]),
            "burst belongs to token_bucket",
        ),
        (
            json!([{ "requests": 1, "per": "day" }, { "requests": 1, "per": "24h" }]),
            "the same limit is there twice",
        ),
        (
            json!([{ "requests": 1, "per": "day", "name": "n" }, { "requests": 2, "per": "day", "name": "n" }]),
            "name them apart",
        ),
        (json!([{ "requests": 1, "per": "day", "name": "" }]), "limits[0]: name"),
        (json!([{ "requests": 1, "per": "day", "unit": "x" }]), "unknown field `unit`"),
        (json!(vec![json!({ "requests": 1, "per": "day" }); 17]), "at most 16, got 17"),
    ] {
        let refused = search(&mut service, "ann", limits.clone()).await;
        assert_eq!(refused.status, 400, "{limits}: {refused:?}");
        assert!(refused.detail().contains(said), "{limits}: {}", refused.detail());
    }
    let both = r#"{"domain":"apps","descriptors":[{"entries":[{"key":"k","value":"v"}]}],"limits":[{"requests":1,"per":"day"}]}"#;
    assert!(service.check(both).await.detail().contains("has its own"));
    let permit = r#"{"domain":"apps","descriptor":{"k":"v"},"limits":[{"requests":1,"per":"day"}]}"#;
    let refused = service.post("/v1/acquire", permit).await;
    assert_eq!(refused.status, 400);
    assert!(refused.detail().contains("leave limits out"), "{}", refused.detail());
}

#[tokio::test]
async fn one_batch_cannot_use_up_the_limits_of_a_domain_and_looking_uses_up_none() {
    let mut service = Service::with("domain: apps\ninline_limits: { max: 1000 }\n", &[]).await;
    let batch = |route: &str, cost: u64| {
        let one = |requests: u64| {
            json!({
                "domain": "apps", "descriptor": { "route": route }, "cost": cost,
                "limits": [{ "requests": requests + 20, "per": "hour" }],
            })
        };
        Value::from((0..1_000).map(one).collect::<Vec<_>>()).to_string()
    };
    let allowed = |answer: &Answer| {
        let all = answer.json().as_array().unwrap().clone();
        all.iter().filter(|each| each["status"] == 200).count()
    };
    assert_eq!(allowed(&service.check(batch("look", 0)).await), 1_000, "it looks");
    assert_eq!(allowed(&service.check(batch("greedy", 1)).await), 100, "a tenth is for one route");
    let refused = search(&mut service, "ann", json!([{ "requests": 7, "per": "day" }])).await;
    assert_eq!(refused.status, 200, "others have room: {refused:?}");
}
