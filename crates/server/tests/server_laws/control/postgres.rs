//! `PostgreSQL` away, late and changed over: decisions go on, and nothing that was said is lost.

use std::time::Duration;

use quanta::Instant;
use serde_json::{Value, json};
use tidegate_testkit::postgres::{PostgresServer, multi_host_url};

use super::{RULES, requests};
use crate::support::service::{Service, Setup, get, until};
use crate::support::wall_time;

/// The deadline of the catalog is 2 s; the margin is for machines that do other things too.
const IN_TIME: Duration = Duration::from_secs(15);

fn on(url: &str) -> Setup {
    Setup::rules(RULES).with("catalog", url)
}

fn refused(service: &Service) {
    let begun = Instant::now();
    let answer = service.ask("PUT", "/admin/v1/quotas/bob", &requests(7));
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.header("retry-after").is_some());
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
}

/// The limit that holds for a tenant, by looking.
fn limit(service: &Service, tenant: &str) -> Option<u64> {
    service.ask("GET", &format!("/admin/v1/usage/{tenant}"), &Value::Null).json()["usage"][0]["limit"]
        .as_u64()
}

#[test]
fn decisions_go_on_while_it_is_stopped_and_a_node_starts_from_its_copy() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let service = on(&url).start();
    service.put_quota("ann", &requests(3));
    postgres.kill();
    let ann = json!({ "api_key": "ann" });
    assert_eq!(service.passing(&ann, 2), 2);
    refused(&service);
    assert_eq!(
        service.ask("GET", "/admin/v1/quotas/ann", &Value::Null).json()["tenant"],
        "ann",
        "from the copy"
    );
    until("it is told", || get(service.admin, "/metrics").body.contains("ratelimit_catalog_up 0"));
    let service = Setup::after(service.stop()).with("catalog", &url).start();
    assert_eq!(limit(&service, "ann"), Some(3), "from the copy");
    assert_eq!(service.passing(&ann, 10), 1);
    assert_eq!(service.ask("GET", "/admin/v1/tokens", &Value::Null).status, 200);
    postgres.restart();
    until("it takes changes again", || {
        service.ask("PUT", "/admin/v1/quotas/bob", &requests(7)).status == 200
    });
    assert_eq!(limit(&service, "bob"), Some(7));
}

#[test]
fn overrides_end_on_time_while_it_is_away() {
    ends_on_time(PostgresServer::kill);
}

#[test]
fn overrides_end_on_time_while_it_hangs() {
    ends_on_time(PostgresServer::pause);
}

fn ends_on_time(trouble: impl Fn(&PostgresServer)) {
    let postgres = PostgresServer::start();
    let service = on(&postgres.url(&postgres.create_database())).start();
    let end = (wall_time() + jiff::SignedDuration::from_secs(8)).to_string();
    service.put_quota(
        "ann",
        &json!({ "overrides": [{ "requests_per_unit": 0, "unit": "year", "expires_at": end }] }),
    );
    assert_eq!(limit(&service, "ann"), Some(0));
    trouble(&postgres);
    until("the override ends", || limit(&service, "ann") == Some(5));
}

#[test]
fn one_that_hangs_holds_nobody_up() {
    let postgres = PostgresServer::start();
    let service = on(&postgres.url(&postgres.create_database())).start();
    service.put_quota("ann", &requests(1000));
    postgres.pause();
    let ann = json!({ "api_key": "ann" }).to_string();
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        assert_eq!(service.check("api", &ann).status, 200);
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(slowest < Duration::from_secs(2), "a decision took {slowest:?}");
    refused(&service);
    postgres.resume();
    until("it takes changes again", || {
        service.ask("PUT", "/admin/v1/quotas/bob", &requests(7)).status == 200
    });
}

#[test]
fn after_a_failover_changes_go_to_the_new_primary() {
    let primary = PostgresServer::start();
    let database = primary.create_database();
    let standby = primary.start_standby();
    let service = on(&multi_host_url(&[&primary, &standby], &database)).start();
    service.put_quota("ann", &requests(3));
    primary.wait_for_standby(&standby);
    primary.kill();
    standby.promote();
    until("it takes changes again", || {
        service.ask("PUT", "/admin/v1/quotas/bob", &requests(7)).status == 200
    });
    assert_eq!((limit(&service, "ann"), limit(&service, "bob")), (Some(3), Some(7)));
    let listed = service.ask("GET", "/admin/v1/quotas", &Value::Null).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn many_nodes_may_start_on_an_empty_database_at_once() {
    let postgres = PostgresServer::start();
    let url = postgres.url(&postgres.create_database());
    let nodes: Vec<Service> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| on(&url).start())).collect();
        starting.into_iter().map(|node| node.join().expect("it starts")).collect()
    });
    for (number, node) in nodes.iter().enumerate() {
        node.put_quota(&format!("tenant-{number}"), &requests(1));
    }
    let all = |node: &Service| {
        let listed = node.ask("GET", "/admin/v1/quotas", &Value::Null).json();
        listed["items"].as_array().map(Vec::len) == Some(nodes.len())
    };
    until("each has all", || nodes.iter().all(all));
}
