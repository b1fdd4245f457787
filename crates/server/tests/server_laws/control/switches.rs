//! Kill switches without the catalog, beside the settings', and taken back.

use serde_json::{Value, json};
use tidegate_testkit::postgres::PostgresServer;

use super::{RULES, start};
use crate::support::service::{Service, Setup, get, until};

fn put(service: &Service, path: &str, mode: &str) -> Value {
    let answer = service.ask("PUT", &format!("/admin/v1/switches/{path}"), &json!({ "mode": mode }));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn has_metric(service: &Service, line: &str) -> bool {
    get(service.admin, "/metrics").body.lines().any(|found| found == line)
}

fn passes_all(service: &Service) -> bool {
    service.passing(&json!({ "api_key": "ann" }), 20) == 20
}

#[test]
fn while_the_database_is_away_a_switch_acts_on_the_node_alone() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let node = || Setup::rules(RULES).with("catalog", &url).start();
    let [one, other] = [node(), node()];
    put(&one, "api_key", "shadow");
    until("it acts on both", || passes_all(&one) && passes_all(&other));
    put(&one, "api_key", "enforce");
    until("it acts on both", || !passes_all(&one) && !passes_all(&other));
    postgres.kill();
    let refused = one.ask("PUT", "/admin/v1/switches/api_key", &json!({ "mode": "off" }));
    assert_eq!(refused.status, 503, "{}", refused.body);
    let shown = put(&one, "api_key?local=true", "off");
    assert_eq!((&shown["mode"], &shown["from"]), (&json!("off"), &json!("node")), "{shown}");
    assert!(shown["note"].as_str().is_some_and(|note| note.contains("this node alone")), "{shown}");
    assert!(passes_all(&one) && !passes_all(&other));
    let listed = one.ask("GET", "/admin/v1/switches", &Value::Null).json();
    assert_eq!((&listed["rules"]["api_key"], &listed["from"]["api_key"]), (&json!("off"), &json!("node")));
    assert!(has_metric(&one, r#"ratelimit_switch{rule="api_key",from="node"} 2"#));
    until("the outage is noticed", || has_metric(&one, "ratelimit_catalog_up 0"));
    postgres.restart();
    until("the catalog has its say", || !passes_all(&one));
    assert!(has_metric(&one, r#"ratelimit_switch{rule="api_key",from="catalog"} 0"#));
    let ended = one.stop();
    assert!(ended.errors.contains("its switches replace those"), "{}", ended.errors);
    let folder = ended.folder.path().join("data/audit");
    tidegate_audit::verify(&folder).expect("the chain is whole");
    let files = std::fs::read_dir(&folder).expect("a folder").flatten();
    let trail: String = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    assert!(trail.contains("node_only"), "{trail}");
}

#[test]
fn a_local_switch_can_be_taken_back_and_the_catalogs_next_word_replaces_it() {
    let service = start();
    assert!(!passes_all(&service));
    put(&service, "api_key?local=true", "off");
    assert!(passes_all(&service));
    let unset = || service.ask("DELETE", "/admin/v1/switches/api_key?local=true", &Value::Null).status;
    assert_eq!((unset(), unset()), (204, 404));
    assert!(!passes_all(&service));
    put(&service, "api_key?local=true", "off");
    // The catalog was there all the time; what it says from now on counts.
    put(&service, "api_key", "enforce");
    assert!(!passes_all(&service));
}

#[test]
fn a_switch_that_is_unset_is_gone_and_may_be_of_a_rule_that_is_gone() {
    let service = start();
    put(&service, "api_key", "off");
    put(&service, "*", "shadow");
    let unset =
        |rule: &str| service.ask("DELETE", &format!("/admin/v1/switches/{rule}"), &Value::Null).status;
    assert_eq!((unset("*"), unset("*")), (204, 404));
    let listed = || service.ask("GET", "/admin/v1/switches", &Value::Null).json();
    assert_eq!(listed()["all"], "enforce");
    service.change_rules(
        &RULES.replace("key: api_key", "key: other").replace("tenant: api_key", "tenant: other"),
    );
    assert_eq!(listed()["rules"]["api_key"], "off");
    assert_eq!(unset("api_key"), 204);
    assert_eq!(listed()["rules"], json!({}));
    let audit = service.ask("GET", "/admin/v1/audit?action=unset_switch", &Value::Null).json();
    assert_eq!(audit["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_the_settings_switch_off_is_not_silently_enforced() {
    let service = Setup::rules(RULES).with("switches", "api_key=off").start();
    assert!(passes_all(&service));
    for path in ["api_key", "api_key?local=true"] {
        let shown = put(&service, path, "enforce");
        assert_eq!((&shown["mode"], &shown["from"]), (&json!("off"), &json!("settings")), "{shown}");
        assert!(shown["note"].as_str().is_some_and(|note| note.contains("settings of this node")), "{shown}");
        assert!(passes_all(&service));
    }
    assert!(has_metric(&service, r#"ratelimit_switch{rule="api_key",from="settings"} 2"#));
    let service = Setup::after(service.stop()).with("switches", "api_key=off").start();
    assert!(passes_all(&service), "nor after a restart");
    let service = Setup::after(service.stop()).start();
    assert!(!passes_all(&service), "the catalog enforces it once the settings do not say otherwise");
}
