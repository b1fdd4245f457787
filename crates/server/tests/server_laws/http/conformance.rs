//! What the conformance suite asks over gRPC, asked over HTTP: the same rules, the same decisions.

use serde_json::{Value, json};

use super::support::{Client, Service};
use crate::conformance::RULES;
use crate::support::service::until;

/// A request about descriptors of one entry each.
fn about(entries: &[(&str, &str)]) -> Value {
    let of = |(key, value): &(&str, &str)| json!({ "entries": [{ "key": key, "value": value }] });
    json!({ "domain": "api", "descriptors": entries.iter().map(of).collect::<Vec<_>>() })
}

/// How many of so many checks pass; the others are 429.
async fn passes(client: &mut Client, key: &str, value: &str, calls: usize) -> usize {
    let mut passed = 0;
    for _ in 0..calls {
        match client.check(about(&[(key, value)]).to_string()).await.status.as_u16() {
            200 => passed += 1,
            status => assert_eq!(status, 429),
        }
    }
    passed
}

async fn api() -> Service {
    Service::with(RULES, &[]).await
}

#[tokio::test]
async fn of_25_checks_on_20_a_minute_20_pass() {
    let mut service = api().await;
    for call in 1..=25_u64 {
        let answer = service.check(r#"{"domain":"api","descriptor":{"user":"ann"}}"#).await;
        assert_eq!(answer.status, if call <= 20 { 200 } else { 429 }, "call {call}");
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""per_user:per_user";q=20;w=60"#));
        assert_eq!(answer.header("x-ratelimit-limit"), Some("20"));
        let left = 20_u64.saturating_sub(call);
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(&*left.to_string()), "call {call}");
        let retry_s = answer.header("retry-after").map(|seconds| seconds.parse::<u64>().unwrap());
        assert_eq!(retry_s.is_some(), call > 20);
        assert!(retry_s.is_none_or(|seconds| (1..=125).contains(&seconds)), "{retry_s:?}");
        let limit = &answer.json()["limits"][0];
        assert_eq!((&limit["limit"], &limit["remaining"]), (&json!(20), &json!(left)));
        let reset_ms = limit["reset_after_ms"].as_u64().unwrap();
        assert!((1..=120_000).contains(&reset_ms), "{reset_ms}");
    }
    assert_eq!(passes(&mut service, "user", "bob", 25).await, 20, "another key has its own counter");
}

#[tokio::test]
async fn of_25_calls_of_json_on_20_a_minute_20_pass() {
    let mut service = api().await;
    for call in 1..=25_u64 {
        let answer = service.post("/json", about(&[("user", "ann")]).to_string()).await;
        let (status, code) = if call <= 20 { (200, "OK") } else { (429, "OVER_LIMIT") };
        let body = answer.json();
        assert_eq!((answer.status.as_u16(), &body["overallCode"]), (status, &json!(code)), "call {call}");
        let told = &body["statuses"][0];
        assert_eq!(told["code"], code);
        let limit = json!({ "name": "per_user", "requestsPerUnit": 20, "unit": "MINUTE" });
        assert_eq!(told["currentLimit"], limit);
        // What is 0 is left out.
        assert_eq!(told["limitRemaining"].as_u64().unwrap_or(0), 20_u64.saturating_sub(call));
    }
}

#[tokio::test]
async fn of_25_in_a_batch_20_pass() {
    let mut service = api().await;
    let answer = service.check(json!(vec![about(&[("user", "ann")]); 25]).to_string()).await;
    assert_eq!(answer.status, 200);
    let statuses: Vec<_> =
        answer.json().as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [[200; 20].as_slice(), &[429; 5]].concat());
}

#[tokio::test]
async fn two_limits_together_are_charged_all_or_none() {
    let mut service = api().await;
    let both = about(&[("user", "ann"), ("hourly", "ann")]).to_string();
    for call in 1..=12 {
        let answer = service.check(both.clone()).await;
        assert_eq!(answer.status, if call <= 10 { 200 } else { 429 }, "call {call}");
        let body = answer.json();
        let rules: Vec<_> = body["limits"].as_array().unwrap().iter().map(|limit| &limit["limit"]).collect();
        assert_eq!(rules, [20, 10]);
        if call > 10 {
            assert_eq!(body["violated-policies"], json!(["hourly:hour"]));
        }
    }
    assert_eq!(service.left("user", "ann").await, Some(10), "what the other denied was not charged here");
}

#[tokio::test]
async fn no_match_unknown_domain_and_deeper_descriptors_have_no_limit() {
    let mut service = api().await;
    for body in [
        json!({ "domain": "nowhere", "descriptor": { "user": "ann" } }),
        json!({ "domain": "api", "descriptor": { "unknown": "ann" } }),
        json!({ "domain": "api", "descriptor": { "outer": "x" } }),
        json!({ "domain": "api", "descriptor": { "user": "ann", "more": "x" } }),
        json!({ "domain": "api", "descriptor": { "path": "/other" } }),
    ] {
        let answer = service.check(body.to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["limits"]), (200, &json!([])), "{body}");
        assert_eq!((answer.header("ratelimit"), answer.header("x-ratelimit-limit")), (None, None), "{body}");
    }
}

#[tokio::test]
async fn shadow_passes_and_quotas_deny_only_together() {
    let mut service = api().await;
    assert_eq!(passes(&mut service, "shadow", "x", 3).await, 3);
    let both = about(&[("quota_a", "x"), ("quota_b", "x")]).to_string();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(service.check(both.clone()).await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}

#[tokio::test]
async fn wildcards_count_apart_unless_they_share() {
    let mut service = api().await;
    assert_eq!(passes(&mut service, "path", "/api/a", 4).await, 2);
    assert_eq!(passes(&mut service, "path", "/api/b", 4).await, 2);
    assert_eq!(passes(&mut service, "shared", "ab", 2).await, 2);
    assert_eq!(passes(&mut service, "shared", "ac", 4).await, 1);
}

#[tokio::test]
async fn a_cost_is_taken_at_once_or_not_at_all() {
    let mut service = api().await;
    for (cost, status, left) in [(15, 200, "5"), (6, 429, "5"), (5, 200, "0"), (0, 200, "0"), (1, 429, "0")] {
        let body = json!({ "domain": "api", "descriptor": { "user": "ann" }, "cost": cost });
        let answer = service.check(body.to_string()).await;
        assert_eq!(answer.status, status, "{cost}");
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left), "{cost}");
    }
}

#[tokio::test]
async fn the_reset_ticks_down() {
    let rules = "
domain: api
descriptors: [{key: user, limits: [{algorithm: fixed_window, requests: 1000000, per: 20s}]}]
";
    let service = Service::with(rules, &[]).await;
    // When the window ends, and the longest and the shortest time that was left of it.
    let mut window: Option<(String, u64, u64)> = None;
    until("the reset has come two seconds closer", || {
        let answer = service.process.check("api", r#"{"user":"ann"}"#);
        let ends_at = answer.header("x-ratelimit-reset").unwrap();
        let left_ms = answer.json()["limits"][0]["reset_after_ms"].as_u64().unwrap();
        match &mut window {
            Some((end, longest, shortest)) if end == ends_at => {
                assert!(left_ms <= *shortest, "{left_ms} ms were left after {shortest} ms");
                *shortest = left_ms;
                *longest - left_ms >= 2_000
            }
            _ => {
                assert!(left_ms <= 20_000, "{left_ms}");
                window = Some((ends_at.to_owned(), left_ms, left_ms));
                false
            }
        }
    });
}

#[tokio::test]
async fn a_reload_adds_and_removes_rules_and_keeps_counters() {
    let mut service = api().await;
    service.check(r#"{"domain":"api","descriptor":{"user":"ann"},"cost":15}"#).await;
    service.process.change_rules(
        &RULES.replace("key: hourly", "key: fresh").replace("requests_per_unit: 20", "requests_per_unit: 16"),
    );
    let gone = service.check(about(&[("hourly", "x")]).to_string()).await;
    assert_eq!((gone.status.as_u16(), &gone.json()["limits"]), (200, &json!([])));
    assert_eq!(passes(&mut service, "fresh", "x", 12).await, 10, "it is there");
    assert_eq!(passes(&mut service, "user", "ann", 5).await, 1, "15 of now 16 are taken");
    let ready = service.get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.json()["rules"]["generation"]), (200, &json!(2)));
}
