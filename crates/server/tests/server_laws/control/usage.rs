//! What tenants have used, and giving it back.

use serde_json::{Value, json};

use super::{fields, requests, start};
use crate::support::wall_time;

#[test]
fn usage_is_told_without_using_and_given_back() {
    let service = start();
    service.put_quota("ann", &requests(10));
    let ann = json!({ "api_key": "ann" });
    assert_eq!(service.passing(&ann, 4), 4);
    assert_eq!(service.passing(&json!({ "api_key": "ann", "endpoint": "POST /orders" }), 2), 2);
    let look = |query: &str| service.ask("GET", &format!("/admin/v1/usage/ann{query}"), &Value::Null).json();
    for _ in 0..3 {
        let usage = look("");
        assert_eq!((&usage["tenant"], &usage["scope"]), (&json!("ann"), &json!("node")));
        let lines: Vec<_> = usage["usage"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|line| {
                (
                    line["descriptor"].as_str().expect("a text"),
                    line["used"].as_u64(),
                    line["limit"].as_u64(),
                    line["remaining"].as_u64(),
                )
            })
            .collect();
        assert_eq!(
            lines,
            [("default", Some(4), Some(10), Some(6)), ("endpoint:POST /orders", Some(2), Some(3), Some(1))]
        );
    }
    let usage = look("");
    let time = |name: &str| {
        usage["usage"][0]["window"][name]
            .as_str()
            .and_then(|text| text.parse::<jiff::Timestamp>().ok())
            .expect("a time")
    };
    let (start, end, now) = (time("start"), time("end"), wall_time());
    assert!(
        start <= now
            && now < end
            && (end - start).total(jiff::Unit::Hour).is_ok_and(|hours| (hours - 365.0 * 24.0).abs() < 1e-9)
    );
    assert_eq!(service.passing(&json!({ "api_key": "ann", "region": "eu" }), 1), 1);
    let region = look("?descriptor=region:eu");
    assert_eq!(
        (&region["usage"][0]["used"], &region["usage"][0]["rule"]),
        (&json!(1), &json!("api_key/region"))
    );
    let reset = service.ask("POST", "/admin/v1/usage/ann/reset", &Value::Null);
    assert_eq!((reset.status, &reset.json()["reset"]), (200, &json!(2)), "{}", reset.body);
    assert_eq!(service.passing(&ann, 100), 10);
    assert_eq!(look("?descriptor=region:eu")["usage"][0]["used"], 1, "others stay");
    let audit = service.ask("GET", "/admin/v1/audit?action=reset_usage", &Value::Null).json();
    assert_eq!(audit["items"][0]["object"], "ann");
    let answer = service.ask("GET", "/admin/v1/usage/ann?descriptor=:x", &Value::Null);
    assert_eq!(fields(&answer), ["descriptor"]);
}
