//! A node that never knew the catalog does not say that it is ready.

use serde_json::json;
use tidegate_testkit::postgres::PostgresServer;

use super::{RULES, requests};
use crate::support::service::{Service, Setup, get, until};

fn on(url: &str) -> Setup {
    Setup::rules(RULES).with("catalog", url)
}

/// Both listeners say the same, unless it changes while they are asked.
fn is_ready(service: &Service) -> bool {
    let ready = || get(service.admin, "/readyz").status == 200;
    let (before, healthy, after) = (ready(), get(service.http, "/healthcheck").status == 200, ready());
    assert!(before != after || healthy == after, "ready: {after}, healthy: {healthy}");
    after
}

/// A start does not wait for the catalog for long; on a busy machine it may be read a little later.
fn until_ready(service: &Service) {
    until("it knows the catalog", || is_ready(service));
}

#[test]
fn a_node_that_never_knew_the_catalog_is_not_ready_until_it_does() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let first = on(&url).start();
    until_ready(&first);
    first.put_quota("ann", &requests(0));
    postgres.stop();
    let service = on(&url).start();
    assert!(!is_ready(&service));
    let detail = get(service.admin, "/readyz").json();
    assert_eq!((&detail["ready"], &detail["catalog"]["known"]), (&json!(false), &json!(false)));
    assert!(get(service.admin, "/metrics").body.contains("ratelimit_catalog_known 0"));
    // One that has its copy is.
    let first = Setup::after(first.stop()).with("catalog", &url).start();
    assert!(is_ready(&first));
    postgres.restart();
    until_ready(&service);
    assert_eq!(service.passing(&json!({ "api_key": "ann" }), 1), 0);
    let ended = service.stop();
    assert!(ended.errors.contains("not ready: the catalog is unreachable"), "{}", ended.errors);
    // From then on its copy will do.
    postgres.stop();
    let service = Setup::after(ended).with("catalog", &url).start();
    assert!(is_ready(&service));
    assert_eq!(service.passing(&json!({ "api_key": "ann" }), 1), 0);
}

#[test]
fn an_empty_catalog_once_known_is_known() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let service = on(&url).start();
    until_ready(&service);
    let ended = service.stop();
    postgres.stop();
    assert!(is_ready(&Setup::after(ended).with("catalog", &url).start()));
}

#[test]
fn tables_of_a_newer_version_are_no_reason_to_be_ready() {
    let postgres = PostgresServer::start();
    let database = postgres.create_database();
    until_ready(&on(&postgres.url(&database)).start());
    postgres.query(&database, "INSERT INTO catalog_steps VALUES (99)");
    let service = on(&postgres.url(&database)).start();
    assert!(!is_ready(&service));
    assert!(service.stop().errors.contains("upgrade tidegate"));
    let service = on(&postgres.url(&database)).with("catalog_required", "false").start();
    assert!(is_ready(&service));
    assert!(service.stop().errors.contains("catalog_required: false"));
}

#[test]
fn an_emptied_database_is_away_and_what_it_said_stays() {
    let postgres = PostgresServer::start();
    let database = postgres.create_database();
    let service = on(&postgres.url(&database)).start();
    until_ready(&service);
    service.put_quota("ann", &requests(0));
    for emptied in ["DELETE FROM catalog", "DROP TABLE catalog, tenants, overrides CASCADE"] {
        postgres.query(&database, emptied);
        // On a busy machine the reason may be that the database is slow.
        until("it says why", || {
            let answer = service.ask("PUT", "/admin/v1/quotas/bob", &requests(1));
            assert_eq!(answer.status, 503, "{emptied}: {}", answer.body);
            answer.body.contains("emptied")
        });
        assert!(is_ready(&service));
        assert_eq!(service.passing(&json!({ "api_key": "ann" }), 1), 0);
    }
}
