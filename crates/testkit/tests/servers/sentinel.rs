//! Redis Sentinel.

use tidegate_testkit::redis::Setup;

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let trio = Setup::redis().start_sentinel();
    let first = trio.primary();
    assert_eq!(first.info("connected_slaves").as_deref(), Some("2"));
    first.command(&["SET", "key", "value"]);
    first.command(&["WAIT", "2", "10000"]);
    let killed = trio.kill_primary();
    assert_eq!(killed.port(), first.port());
    let second = trio.wait_for_failover(killed);
    assert_ne!(second.port(), first.port());
    assert_eq!(second.command(&["GET", "key"]).text(), "value");
    killed.restart();
    trio.wait_until_whole();
    assert_eq!(killed.info("role").as_deref(), Some("slave"));
    assert_eq!(killed.command(&["GET", "key"]).text(), "value");
}

#[test]
fn a_hung_primary_is_replaced() {
    let trio = Setup::valkey().password("secret").start_sentinel();
    let [a, b, c] = [0, 1, 2].map(|index| trio.sentinels()[index].address());
    assert_eq!(trio.url(), format!("redis+sentinel://:secret@{a},{b},{c}/{}", trio.name()));
    let first = trio.primary();
    first.pause();
    let second = trio.wait_for_failover(first);
    assert_ne!(second.port(), first.port());
    first.resume();
    trio.wait_until_whole();
    assert_eq!(trio.primary().port(), second.port());
}
