//! A primary with replicas, watched by sentinels.

use tidegate_testkit::redis::Setup;
use tokio::time::Instant;

use super::client::Source;
use super::load::{Load, go_on_for};
use super::{A_WHILE, BACK_WITHIN, EVERY_POLICY, LIMIT, SHARE, node};

#[test]
fn a_failover_of_the_sentinels_is_followed() {
    let trio = Setup::redis().start_sentinel();
    let node = node(&trio.url());
    let load = Load::on(&node, &EVERY_POLICY);
    go_on_for(A_WHILE);
    let old = trio.kill_primary();
    let killed = Instant::now();
    let new = trio.wait_for_failover(old);
    let promoted = Instant::now();
    go_on_for(A_WHILE);
    let notes = load.stop();
    assert!(new.runs() && new.port() != old.port());
    notes.assert_calm();
    // The sentinels take more than a second to promote; policies hold until the first of them has.
    notes.assert_policies(killed, killed + std::time::Duration::from_millis(500));
    notes.assert_back(promoted, BACK_WITHIN);
    // It was used up long before, and so the replicas knew.
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert!(notes.admitted("tight", Source::Fallback) <= SHARE);
}

#[test]
fn a_primary_that_was_demoted_is_left() {
    let trio = Setup::redis().start_sentinel();
    let node = node(&trio.url());
    let load = Load::on(&node, &EVERY_POLICY);
    go_on_for(A_WHILE);
    let old = trio.primary();
    trio.sentinels()[0].command(&["SENTINEL", "FAILOVER", trio.name()]);
    go_on_for(A_WHILE * 3);
    for s in trio.sentinels() {
        eprintln!("=== {}", s.log());
    }
    trio.wait_for_failover(old);
    let promoted = Instant::now();
    go_on_for(A_WHILE);
    let notes = load.stop();
    assert!(old.runs());
    notes.assert_calm();
    notes.assert_back(promoted, BACK_WITHIN);
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert!(notes.admitted("tight", Source::Fallback) <= SHARE);
}
