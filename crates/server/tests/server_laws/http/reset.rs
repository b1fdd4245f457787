//! `duration_until_reset` of Envoy's protocol: on a denial it is when the same request could pass, because Envoy
//! and its users make `Retry-After` of it. Asked by `/json`, which is the same code as over gRPC, with a clock that
//! the test moves.

use serde_json::{Value, json};
use tidegate::VirtualClock;

use super::support::{Answer, Client};
use super::virtual_time::start_with;

const ALGORITHMS: [&str; 7] = [
    "algorithm: fixed_window",
    "algorithm: sliding_window",
    "algorithm: sub_windows, buckets: 6",
    "algorithm: sliding_log",
    "algorithm: token_bucket",
    "algorithm: gcra",
    "algorithm: leaky_bucket, burst: 3",
];

async fn start(limits: &str) -> (Client, VirtualClock) {
    start_with(&format!("domain: api\ndescriptors:\n{limits}")).await
}

async fn ask(client: &mut Client, descriptors: &[(&str, &str)], hits: u64) -> Answer {
    let descriptors: Vec<Value> = descriptors
        .iter()
        .map(|(key, value)| json!({ "entries": [{ "key": key, "value": value }] }))
        .collect();
    let body = json!({ "domain": "api", "descriptors": descriptors, "hitsAddend": hits });
    client.post("/json", body.to_string()).await
}

/// Seconds until the reset of a descriptor.
fn reset_s(answer: &Answer, descriptor: usize) -> u64 {
    let answer = answer.json();
    let text = answer["statuses"][descriptor]["durationUntilReset"].as_str().expect("a duration").to_owned();
    text.strip_suffix('s').and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// What HTTP tells of the same request, without jitter, rounded up.
async fn http_retry_s(client: &mut Client, cost: u64) -> u64 {
    let body = json!({ "domain": "api", "descriptor": { "user": "ann" }, "cost": cost });
    let denied = client.check(body.to_string()).await;
    assert_eq!(denied.status, 429);
    denied.json()["limits"][0]["retry_after_ms"].as_u64().expect("a time").div_ceil(1_000)
}

#[tokio::test]
async fn a_denial_says_when_the_same_request_could_pass_for_every_algorithm() {
    for algorithm in ALGORITHMS {
        for cost in [1, 2] {
            let rule = format!("  - {{ key: user, limits: [{{ {algorithm}, requests: 3, per: minute }}] }}");
            let (mut client, clock) = start(&rule).await;
            // In the middle of things, at no round time.
            clock.advance_us(7_654_321);
            let mut passed = 0;
            let denied = loop {
                let answer = ask(&mut client, &[("user", "ann")], cost).await;
                if answer.status == 429 {
                    break answer;
                }
                passed += 1;
                clock.advance_us(1_234_567);
            };
            assert!(passed > 0, "{algorithm}");
            let told_s = reset_s(&denied, 0);
            assert_eq!(told_s, http_retry_s(&mut client, cost).await, "{algorithm}, cost {cost}");
            assert!((1..=120).contains(&told_s), "{algorithm}: {told_s}");
            clock.advance_us((told_s - 1) * 1_000_000);
            let early = ask(&mut client, &[("user", "ann")], cost).await;
            assert_eq!(early.status, 429, "{algorithm}: rounded up, and no more than that");
            clock.advance_us(1_000_000);
            let answer = ask(&mut client, &[("user", "ann")], cost).await;
            assert_eq!(answer.status, 200, "{algorithm}, cost {cost}: after {told_s} s");
        }
    }
}

#[tokio::test]
async fn a_token_bucket_of_one_a_second_says_one_second() {
    let rule =
        "  - { key: user, limits: [{ algorithm: token_bucket, requests: 60, per: minute, burst: 3 }] }";
    let (mut client, _clock) = start(rule).await;
    let resets: Vec<u64> = {
        let mut resets = Vec::new();
        for _ in 0..4 {
            resets.push(reset_s(&ask(&mut client, &[("user", "ann")], 1).await, 0));
        }
        resets
    };
    // What passes says when the bucket is full again.
    assert_eq!(resets, [1, 2, 3, 1]);
}

#[tokio::test]
async fn of_several_descriptors_each_that_denies_says_when_the_whole_request_could_pass() {
    let rules = "  - { key: user, limits: [{ algorithm: token_bucket, requests: 1, per: 10s }] }
  - { key: team, limits: [{ algorithm: token_bucket, requests: 1, per: 90s }] }
  - { key: all, limits: [{ algorithm: token_bucket, requests: 10, per: 100s }] }";
    let (mut client, clock) = start(rules).await;
    let all = [("user", "ann"), ("team", "red"), ("all", "")];
    assert_eq!(ask(&mut client, &all, 1).await.status, 200);
    let denied = ask(&mut client, &all, 1).await;
    let codes: Vec<Value> = (0..3).map(|index| denied.json()["statuses"][index]["code"].clone()).collect();
    assert_eq!(codes, ["OVER_LIMIT", "OVER_LIMIT", "OK"]);
    // Envoy reads the first of those with the least left.
    assert_eq!([reset_s(&denied, 0), reset_s(&denied, 1), reset_s(&denied, 2)], [90, 90, 10]);
    clock.advance_us(89_000_000);
    assert_eq!(ask(&mut client, &all, 1).await.status, 429);
    clock.advance_us(1_000_000);
    assert_eq!(ask(&mut client, &all, 1).await.status, 200);
}

#[tokio::test]
async fn a_request_that_can_never_pass_says_when_the_limit_is_untouched() {
    for algorithm in ALGORITHMS {
        let rule = format!("  - {{ key: user, limits: [{{ {algorithm}, requests: 3, per: minute }}] }}");
        let (mut client, _clock) = start(&rule).await;
        assert_eq!(ask(&mut client, &[("user", "ann")], 1).await.status, 200);
        let denied = ask(&mut client, &[("user", "ann")], 4_000_000_000).await;
        assert_eq!(denied.status, 429, "{algorithm}");
        assert!((1..=120).contains(&reset_s(&denied, 0)), "{algorithm}: {}", reset_s(&denied, 0));
    }
}
