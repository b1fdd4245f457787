//! A node whose clock is wrong: overrides and tokens go by the catalog's.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidegate_testkit::postgres::PostgresServer;
use tidegate_testkit::redis::faketime;

use super::{RULES, ask_at};
use crate::support::service::{Service, Setup, get, until};
use crate::support::wall_time;

fn limit(service: &Service, tenant: &str) -> Option<u64> {
    service.ask("GET", &format!("/admin/v1/usage/{tenant}"), &Value::Null).json()["usage"][0]["limit"]
        .as_u64()
}

fn metric(service: &Service, name: &str) -> Option<f64> {
    let text = get(service.admin, "/metrics").body;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn in_minutes(minutes: i64) -> String {
    (wall_time() + SignedDuration::from_mins(minutes)).to_string()
}

#[test]
fn a_node_an_hour_ahead_goes_by_the_catalogs_clock() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let right = Setup::rules(RULES).with("catalog", &url).start();
    let ahead = Setup::rules(RULES)
        .with("catalog", &url)
        .environment("LD_PRELOAD", &faketime().display().to_string())
        .environment("FAKETIME", "+3600")
        .start();
    let numbers = json!({ "requests_per_unit": 7, "unit": "year" });
    let with = |name: &str, at: String| {
        let mut numbers = numbers.clone();
        numbers[name] = at.into();
        json!({ "overrides": [numbers] })
    };
    right.put_quota("ending", &with("expires_at", in_minutes(30)));
    ahead.put_quota("beginning", &with("effective_at", in_minutes(30)));
    let token = json!({ "name": "ci", "role": "viewer", "expires_at": in_minutes(30) });
    let made = ahead.ask("POST", "/admin/v1/tokens", &token);
    assert_eq!(made.status, 201, "{}", made.body);
    let token = made.json()["token"].as_str().expect("a token").to_owned();
    let look = |node: &Service| ask_at(node.admin, Some(&token), "GET", "/admin/v1/quotas", &[], "").status;
    for node in [&right, &ahead] {
        until("it hears of all", || {
            limit(node, "ending") == Some(7) && limit(node, "beginning") == Some(5) && look(node) == 200
        });
        let shown = node.ask("GET", "/admin/v1/quotas/ending", &Value::Null).json();
        assert_eq!(shown["quotas"]["overrides"][0]["in_effect"], true);
    }
    // What an hour ahead of now is an end in the past is refused by both alike.
    for node in [&right, &ahead] {
        let ended = with("expires_at", in_minutes(-1));
        assert_eq!(node.ask("PUT", "/admin/v1/quotas/ended", &ended).status, 422);
    }
    let audit = right.ask("GET", "/admin/v1/audit", &Value::Null).json();
    for item in audit["items"].as_array().expect("a list") {
        let at: Timestamp = item["at"].as_str().and_then(|at| at.parse().ok()).expect("a time");
        assert!(at.duration_since(wall_time()).abs() < SignedDuration::from_mins(20), "{item}");
    }
    let skew = metric(&ahead, "ratelimit_clock_skew_seconds").expect("it is measured");
    assert!((3_500.0..3_700.0).contains(&skew), "{skew}");
    let skew = metric(&right, "ratelimit_clock_skew_seconds").expect("it is measured");
    assert!(skew.abs() < 60.0, "{skew}");
    // Also while the database is away.
    postgres.kill();
    until("it is away", || metric(&ahead, "ratelimit_catalog_up") == Some(0.0));
    assert_eq!((limit(&ahead, "ending"), look(&ahead)), (Some(7), 200));
    let ended = ahead.stop();
    assert!(ended.errors.contains("this node's clock differs from the catalog's"), "{}", ended.errors);
    assert!(!right.stop().errors.contains("this node's clock differs from the catalog's"));
}
