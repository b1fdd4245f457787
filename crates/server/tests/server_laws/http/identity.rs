//! `vectors/identity.json` over `POST /v1/check`.

use serde_json::{Value, json};
use tidegate_testkit::vector::{IdentityTally, identity_cases};

use super::support::Service;

#[tokio::test]
async fn limits_of_requests_are_counted_as_the_vectors_say() {
    let mut service = Service::with("domain: apps\ninline_limits: { max: 1000 }\n", &[]).await;
    for (number, case) in identity_cases().into_iter().enumerate() {
        let mut tally = IdentityTally::default();
        for ask in &case.asks {
            // Each case has counters of its own.
            let of_case = [("case".to_owned(), number.to_string())];
            let entries = of_case.iter().chain(&ask.sent.entries);
            let entries: Vec<_> = entries.map(|(key, value)| json!({ "key": key, "value": value })).collect();
            let limits = ask.sent.limits.iter().map(|limit| {
                let mut sent = json!({ "requests": limit.requests, "per": limit.per });
                limit.burst.iter().for_each(|burst| sent["burst"] = json!(burst));
                limit.name.iter().for_each(|name| sent["name"] = json!(name));
                sent
            });
            let limits: Value = limits.collect();
            let body = json!({ "domain": "apps", "descriptors": [{ "entries": entries, "limits": limits }] });
            let answer = service.check(body.to_string()).await;
            assert_eq!(answer.status, 200, "{}: {answer:?}", case.name);
            let left: Vec<_> = answer.json()["limits"]
                .as_array()
                .unwrap()
                .iter()
                .map(|limit| limit["remaining"].as_u64().unwrap())
                .collect();
            assert_eq!(left, tally.left_after(ask), "{}: {ask:?}", case.name);
        }
    }
}
