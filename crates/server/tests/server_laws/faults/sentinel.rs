//! A primary with replicas, watched by sentinels.

use std::time::Duration;

use tidegate_testkit::redis::{RedisServer, SentinelTrio, Setup, until};
use tokio::time::Instant;

use super::client::Source;
use super::load::{Load, go_on_for};
use super::{A_WHILE, BACK_WITHIN, EVERY_POLICY, LIMIT, SHARE, node};

#[test]
fn a_failover_of_the_sentinels_is_followed() {
    let trio = Setup::redis().start_sentinel();
    let node = node(&trio.url());
    let load = Load::on(&node, &EVERY_POLICY).beside(trio.servers());
    go_on_for(A_WHILE);
    let dies = Instant::now();
    let old = trio.kill_primary();
    let killed = Instant::now();
    let new = trio.wait_for_failover(old);
    let promoted = Instant::now();
    go_on_for(A_WHILE);
    let notes = load.stop();
    assert!(new.runs() && new.port() != old.port());
    notes.assert_calm();
    // The sentinels take more than a second to promote; policies hold until the first of them has.
    notes.assert_policies(killed, dies + Duration::from_millis(500));
    notes.assert_back(promoted, BACK_WITHIN);
    // It was used up long before, and so the replicas knew.
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert!(notes.admitted("tight", Source::Fallback) <= SHARE);
}

/// Tells a sentinel to put another in the place of a primary that is well, again if it gives up.
fn demote(trio: &SentinelTrio, primary: &RedisServer) {
    let sentinel = &trio.sentinels()[0];
    until("a sentinel names another primary", || {
        let named = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", trio.name()]);
        let other = named.items()[1].text() != primary.port().to_string();
        if !other {
            // It refuses while it is at it.
            let _ = sentinel.try_command(&["SENTINEL", "FAILOVER", trio.name()]);
        }
        other.then_some(())
    });
}

#[test]
fn a_primary_that_was_demoted_is_left() {
    let trio = Setup::redis().start_sentinel();
    for sentinel in trio.sentinels() {
        // As it is by default: the old primary is told after four of these. Until then it takes what it is sent.
        sentinel.command(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", "2000"]);
    }
    let node = node(&trio.url());
    let load = Load::on(&node, &EVERY_POLICY).beside(trio.servers());
    go_on_for(A_WHILE);
    let old = trio.primary();
    demote(&trio, old);
    let new = trio.wait_for_failover(old);
    let promoted = Instant::now();
    assert_eq!(old.info("role").as_deref(), Some("master"), "nobody has told it yet");
    go_on_for(A_WHILE);
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_back(promoted, BACK_WITHIN);
    // What was decided last was counted by the new one.
    let counted = |server: &RedisServer| -> u64 {
        server.info("total_commands_processed").and_then(|count| count.parse().ok()).expect("a count")
    };
    let (before, untouched) = (counted(new), counted(old));
    for _ in 0..50 {
        super::decided_by_store(&node, r#"{"open":"v0"}"#);
    }
    assert!(counted(new) >= before + 50);
    assert!(counted(old) < untouched + 50);
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert!(notes.admitted("tight", Source::Fallback) <= SHARE);
}
