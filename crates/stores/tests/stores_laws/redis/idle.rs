//! Servers that fail while nobody asks them.

use tidegate_stores::redis::{Circuit, RedisStore};
use tidegate_testkit::redis::{RedisServer, SentinelTrio, Setup, sharded_url, until};

use super::world::{RUNTIME, config};

fn connect(url: &str) -> RedisStore {
    RUNTIME.block_on(RedisStore::connect(config(url)))
}

/// Which of a store's servers are not asked.
fn open(store: &RedisStore) -> Vec<String> {
    let circuits = store.circuits().into_iter();
    circuits.filter(|(_, circuit, _)| *circuit == Circuit::Open).map(|(server, ..)| server).collect()
}

fn until_open(store: &RedisStore, servers: &[String]) {
    until("it is noticed that a server is gone", || (open(store) == servers).then_some(()));
}

#[test]
fn a_server_that_dies_while_nobody_asks_is_noticed_and_so_is_its_return() {
    let server = RedisServer::start();
    let store = connect(&server.url());
    let name = vec![server.address().to_string()];
    assert!(open(&store).is_empty());
    server.kill();
    until_open(&store, &name);
    assert!(store.failures().unreachable >= 3);
    server.restart();
    until_open(&store, &[]);
}

#[test]
fn of_shards_the_one_that_hangs_is_noticed() {
    let servers = RedisServer::start_many(&Setup::redis(), 3);
    let store = RUNTIME.block_on(RedisStore::connect(tidegate_stores::redis::RedisStoreConfig {
        deadline: std::time::Duration::from_millis(200),
        ..config(&sharded_url(&servers))
    }));
    servers[1].pause();
    until_open(&store, &[servers[1].address().to_string()]);
    servers[1].resume();
    until_open(&store, &[]);
}

#[test]
fn a_server_that_became_a_replica_is_noticed() {
    let servers = RedisServer::start_many(&Setup::redis(), 2);
    let store = connect(&servers[0].url());
    servers[0].command(&["REPLICAOF", "127.0.0.1", &servers[1].port().to_string()]);
    until_open(&store, &[servers[0].address().to_string()]);
    servers[0].command(&["REPLICAOF", "NO", "ONE"]);
    until_open(&store, &[]);
}

#[test]
fn a_store_that_was_never_found_does_not_look_well() {
    let server = RedisServer::start();
    let nobody = format!("127.0.0.1:{}", tidegate_testkit::redis::free_port());
    // Neither a cluster nor a sentinel.
    let cluster = connect(&format!("redis+cluster://{}", server.address()));
    until("a cluster without slots is noticed", || (!open(&cluster).is_empty()).then_some(()));
    let sentinel = connect(&format!("redis+sentinel://{nobody}/limits"));
    until_open(&sentinel, &["limits".to_owned()]);
}

#[test]
fn a_failover_is_followed_while_nobody_asks() {
    let trio: SentinelTrio = Setup::redis().start_sentinel();
    let store = connect(&trio.url());
    let old = trio.kill_primary();
    trio.wait_for_failover(old);
    until_open(&store, &[]);
}
