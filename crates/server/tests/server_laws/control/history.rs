//! What the catalog need not keep any longer goes by itself, and no node misses a deletion for it.

use std::path::Path;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidegate_catalog::{AuditFilter, By, Catalog, Precondition, TenantDraft};
use tidegate_testkit::postgres::PostgresServer;
use tokio::runtime::Runtime;

use super::{RULES, requests};
use crate::support::service::{Service, Setup, get, until};
use crate::support::wall_time;

const ANY: Precondition = Precondition::Any;

/// Somebody, so many days ago.
fn days_ago(days: i64) -> By {
    By::new("ann", "request-1", wall_time() - SignedDuration::from_hours(24 * days))
}

fn long_ago() -> By {
    days_ago(30)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn tier(name: &str) -> TenantDraft {
    TenantDraft { tier: Some(name.to_owned()), overrides: Vec::new() }
}

/// A tenant that was deleted, one that was not, and five versions of rules, all of them long ago.
async fn fill(catalog: &Catalog) {
    for name in ["ann", "gone"] {
        catalog.put_tenant(name, &tier("pro"), ANY, &long_ago()).await.expect("it is put");
    }
    for count in 1..=5 {
        let text = format!(
            "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {{unit: year, requests_per_unit: {count}}}\n"
        );
        catalog.put_rules("shop", &text, "", ANY, &long_ago()).await.expect("they are put");
    }
    catalog.delete_tenant("gone", ANY, &long_ago()).await.expect("it is deleted");
}

fn kept(service: &Service) -> (usize, Vec<u64>) {
    let changes = service.ask("GET", "/admin/v1/audit", &Value::Null).json();
    let versions = service.ask("GET", "/admin/v1/rules/shop/versions", &Value::Null).json();
    let items = |listed: &Value| listed["items"].as_array().cloned().unwrap_or_default();
    let numbers = items(&versions).iter().filter_map(|item| item["version"].as_u64()).collect();
    (items(&changes).len(), numbers)
}

async fn in_folder(data: &Path) -> Catalog {
    std::fs::create_dir_all(data).expect("a folder");
    Catalog::sqlite(data.join("catalog.db")).await.expect("it opens")
}

#[test]
fn a_node_purges_what_its_settings_do_not_keep() {
    let setup = Setup::rules(RULES);
    runtime().block_on(async {
        let catalog = in_folder(&setup.path().join("data")).await;
        fill(&catalog).await;
        catalog.record("a", "b", "c", None, None, &days_ago(401)).await.expect("it is recorded");
    });
    // By default one of all these is old enough.
    let service = setup.start();
    until("it is purged", || kept(&service) == (8, vec![5, 4, 3, 2, 1]));
    let setup = Setup::after(service.stop()).with("history.versions", "2").with("history.keep", "24h");
    let service = setup.start();
    until("it is purged", || kept(&service) == (0, vec![5, 4]));
    let gone = service.ask("GET", "/admin/v1/rules/shop?version=3", &Value::Null);
    assert!(gone.status == 404 && gone.body.contains("or not any more"), "{}", gone.body);
    // What was said long ago holds, and may be said again: that is no change, and no trouble.
    assert_eq!(service.put_quota("ann", &json!({ "tier": "pro" }))["tier"], "pro");
    service.put_quota("ann", &requests(3));
    assert_eq!(kept(&service).0, 1);
    let ended = service.stop();
    assert!(!ended.errors.contains("not in the audit files"), "{}", ended.errors);
}

#[test]
fn a_node_that_was_away_for_longer_than_deletions_are_kept_reads_everything_anew() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let catalog = Catalog::postgres(&url).expect("a URL");
    let runtime = runtime();
    runtime.block_on(fill(&catalog));
    let node = |setup: Setup| setup.with("catalog", &url).with("history.keep", "24h").start();
    let away = node(Setup::rules(RULES));
    let there = node(Setup::rules(RULES));
    let limit = |service: &Service, tenant: &str| {
        let shown = service.ask("GET", &format!("/admin/v1/usage/{tenant}"), &Value::Null).json();
        shown["usage"][0]["limit"].as_u64()
    };
    assert_eq!((limit(&away, "ann"), limit(&there, "ann")), (Some(50), Some(50)));
    let left = away.stop();
    // Deleted while it is away, and purged since.
    runtime.block_on(async {
        catalog.delete_tenant("ann", ANY, &long_ago()).await.expect("it is deleted");
        catalog.put_tenant("new", &tier("pro"), ANY, &long_ago()).await.expect("it is put");
    });
    until("the other hears of it", || limit(&there, "ann") == Some(5));
    let there = node(Setup::after(there.stop()));
    let is_purged = || {
        let changes = runtime.block_on(catalog.audit(&AuditFilter::default(), None, 10)).expect("a page");
        changes.items.is_empty()
    };
    until("it is purged", is_purged);
    let back = node(Setup::after(left));
    for service in [&back, &there] {
        assert_eq!((limit(service, "ann"), limit(service, "new")), (Some(5), Some(50)));
    }
    // From its copy alone, too.
    postgres.kill();
    let back = node(Setup::after(back.stop()));
    assert_eq!((limit(&back, "ann"), limit(&back, "new")), (Some(5), Some(50)));
}

#[test]
fn a_purge_that_fails_is_told_and_stops_nothing() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let service = Setup::rules(RULES).with("catalog", &url).start();
    let ended = service.stop();
    postgres.kill();
    let service = Setup::after(ended).with("catalog", &url).start();
    assert_eq!(service.check("api", r#"{"api_key":"ann"}"#).status, 200);
    // One look per second has failed for longer than any call may take.
    let failures = || {
        let metrics = get(service.admin, "/metrics").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("ratelimit_catalog_failures_total "));
        line.and_then(|count| count.parse::<u64>().ok())
    };
    until("the purge has failed, too", || failures() >= Some(6));
    let ended = service.stop();
    assert!(ended.errors.contains("the catalog's history was not purged"), "{}", ended.errors);
}
