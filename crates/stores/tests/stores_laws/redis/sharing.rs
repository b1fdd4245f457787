//! What nodes that share a store can rely on.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::{Algorithm, Key, Limit, Window};
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_stores::{Charge, Correction, Intent, Store, StoreError};
use tidegate_testkit::redis::{Fault, FaultProxy, RedisServer, Setup, sharded_url, until};

use super::world::{RUNTIME, config};
use crate::limits;
use crate::world::SEED;

fn connect(config: RedisStoreConfig) -> RedisStore {
    RUNTIME.block_on(RedisStore::connect(config))
}

fn key(name: &str) -> Key {
    SEED.text(name)
}

/// Runs a future where lanes can be driven.
fn run<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

async fn take(store: &RedisStore, name: &str, limit: &Limit, cost: u64) -> bool {
    let lease = SEED.text(name).mark;
    let charge = Charge { lease, hold: true, ..Charge::new(key(name), limit, cost) };
    store.settle(&[charge], Intent::Take).await.expect("the store settles")[0].allowed()
}

fn commands(server: &RedisServer) -> u64 {
    let info = server.info("total_commands_processed").expect("a count");
    info.parse().expect("a number")
}

/// Every key of a server, with the time it has left in milliseconds; -1 is for ever.
fn keys(server: &RedisServer) -> Vec<(String, i64)> {
    let keys = server.command(&["KEYS", "*"]);
    let left = |key: String| {
        let left = server.command(&["PTTL", &key]).integer();
        (key, left)
    };
    keys.items().iter().map(|key| left(key.text())).collect()
}

#[test]
fn two_nodes_enforce_one_limit_by_the_servers_time() {
    let server = RedisServer::start();
    let shared = config(&server.url());
    let (one, two) = (connect(shared.clone()), connect(shared));
    run(async {
        for limit in limits::charged() {
            let name = format!("{limit:?}");
            let mut admitted = 0;
            for round in 0..2 * limit.burst() {
                let node = if round % 2 == 0 { &one } else { &two };
                admitted += u64::from(take(node, &name, &limit, 1).await);
            }
            // A bucket drains while we ask; the windows of these limits are ten seconds long.
            assert!((limit.burst()..=limit.burst() + 1).contains(&admitted), "{admitted} of {limit:?}");
        }
    });
}

#[test]
fn everything_that_is_written_expires() {
    let server = RedisServer::start();
    let store = connect(RedisStoreConfig { nodes: None, ..config(&server.url()) });
    run(async {
        for limit in limits::every() {
            let name = format!("{limit:?}");
            for cost in [1, 2, 1] {
                take(&store, &name, &limit, cost).await;
            }
            let charge = Charge { count_denied: true, ..Charge::new(key(&name), &limit, limit.burst()) };
            store.settle(&[charge, charge], Intent::Take).await.expect("settled");
            store.give_back(&[charge]).await.expect("given back");
            take(&store, &name, &limit, 1).await;
            store.correct(&[(charge, Correction::Overdraw)]).await;
            store.keep(&format!("{limit:?}"), b"record", Duration::from_mins(1)).await.expect("kept");
            let _ = store.renew(&charge).await.expect("renewed or not");
        }
    });
    until("the nodes are counted", || (store.nodes() == 1 && keys(&server).len() > 7).then_some(()));
    for (key, left) in keys(&server) {
        assert!(left > 0, "{key} has {left} ms left");
    }
    assert!(server.command(&["DBSIZE"]).integer() > 7, "there was something to look at");
}

#[test]
fn dead_counters_stay_a_minority() {
    let server = RedisServer::start();
    let short = Limit::token_bucket(1_000, Window::Period { us: 20_000 }).expect("a limit");
    let store = connect(RedisStoreConfig { partitions: 1, ..config(&server.url()) });
    run(async {
        for wave in 0..20 {
            for number in 0..100 {
                assert!(take(&store, &format!("{wave}/{number}"), &short, 1).await);
            }
        }
    });
    let (name, _) = keys(&server).into_iter().find(|(key, _)| key.contains(":b")).expect("a hash of buckets");
    let fields = server.command(&["HLEN", &name]).integer();
    assert!(fields < 1_000, "{fields} of 2000 are still there, and hardly any of them counts");
}

#[test]
fn a_script_that_was_forgotten_is_sent_again() {
    let server = RedisServer::start();
    let store = connect(config(&server.url()));
    let limit = limits::fixed_window(1_000);
    run(async {
        for round in 0..20 {
            assert!(take(&store, "k", &limit, 1).await);
            if round % 3 == 0 {
                server.command(&["SCRIPT", "FLUSH"]);
            }
        }
    });
}

#[test]
fn a_flood_on_a_denied_key_costs_the_server_nearly_nothing() {
    let server = RedisServer::start();
    let remember = RedisStoreConfig { remember_denials: Duration::from_secs(1), ..config(&server.url()) };
    let store = connect(remember);
    let limit = limits::fixed_window(5);
    run(async {
        while take(&store, "k", &limit, 1).await {}
        let before = commands(&server);
        for _ in 0..2_000 {
            assert!(!take(&store, "k", &limit, 1).await);
        }
        // The window may have ended once, and each look at the count is a command too.
        assert!(commands(&server) - before < 20, "{} commands", commands(&server) - before);
        assert!(take(&store, "other", &limit, 1).await, "others go to the server");
    });
}

#[test]
fn a_refund_is_seen_at_once_in_spite_of_a_remembered_denial() {
    let server = RedisServer::start();
    let store =
        connect(RedisStoreConfig { remember_denials: Duration::from_secs(1), ..config(&server.url()) });
    let limit = Limit::new(Algorithm::FixedWindow, 5, Window::seconds(86_400 * 365)).expect("a limit");
    run(async {
        assert!(take(&store, "k", &limit, 5).await && !take(&store, "k", &limit, 1).await);
        store.give_back(&[Charge::new(key("k"), &limit, 1)]).await.expect("given back");
        assert!(take(&store, "k", &limit, 1).await);
        assert!(!take(&store, "k", &limit, 1).await);
        store.forget_denials();
        assert!(!take(&store, "k", &limit, 1).await, "the server says the same");
    });
}

#[test]
fn a_thread_that_looks_for_answers_keeps_deadlines_and_sleeps_when_there_is_nothing() {
    let server = RedisServer::start();
    let busy = RedisStoreConfig {
        busy_poll: Duration::from_millis(2),
        deadline: Duration::from_millis(500),
        ..config(&server.url())
    };
    let limit = limits::fixed_window(3);
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    alone.block_on(async {
        let store = RedisStore::connect(busy).await;
        for _ in 0..3 {
            assert!(take(&store, "k", &limit, 1).await);
        }
        let worked = cpu_time();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let looked = cpu_time().saturating_sub(worked);
        assert!(looked < Duration::from_millis(300), "it sleeps: {looked:?}");
        server.pause();
        let late = store.settle(&[Charge::new(key("k"), &limit, 1)], Intent::Take).await;
        assert!(matches!(late, Err(StoreError::Late)), "{late:?}");
        server.resume();
    });
}

#[test]
fn a_thread_that_looks_in_vain_stops_looking() {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let busy = RedisStoreConfig { busy_poll: Duration::from_millis(10), ..config(&proxy.url()) };
    let limit = limits::fixed_window(1_000);
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    alone.block_on(async {
        let store = RedisStore::connect(busy).await;
        assert!(take(&store, "k", &limit, 1).await);
        proxy.set(Fault::Delay(Duration::from_millis(20)));
        let worked = cpu_time();
        for _ in 0..50 {
            assert!(take(&store, "k", &limit, 1).await);
        }
        // Looking each time would be half a second.
        let looked = cpu_time().saturating_sub(worked);
        assert!(looked < Duration::from_millis(250), "{looked:?}");
    });
}

/// What this thread has worked so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a thread does not work backwards")
}

#[test]
fn a_new_shard_takes_its_share_and_leaves_the_rest_where_it_was() {
    let servers = RedisServer::start_many(&Setup::redis(), 4);
    // Many partitions: who draws the highest number for one is luck, and ports differ from run to run.
    let prefix = RedisStoreConfig { partitions: 16_384, ..config(&servers[0].url()) };
    let store = |servers: &[RedisServer]| {
        let url = sharded_url(servers).parse().expect("an address");
        connect(RedisStoreConfig { url, ..prefix.clone() })
    };
    let limit = Limit::new(Algorithm::FixedWindow, 1, Window::seconds(86_400 * 365)).expect("a limit");
    let (three, four) = (store(&servers[..3]), store(&servers));
    run(async {
        let mut moved = 0;
        for number in 0..400 {
            let name = number.to_string();
            assert!(take(&three, &name, &limit, 1).await);
            moved += u32::from(take(&four, &name, &limit, 1).await);
        }
        assert!((50..150).contains(&moved), "{moved} of 400 have moved, about 100 should");
    });
}

#[test]
fn names_that_are_counted_up_are_in_all_partitions() {
    let server = RedisServer::start();
    let store = connect(config(&server.url()));
    let limit = Limit::new(Algorithm::SlidingLog, 1, Window::seconds(86_400)).expect("a limit");
    run(async {
        for number in 0..2_000 {
            assert!(take(&store, &format!("user-{number}"), &limit, 1).await);
        }
    });
    let partition = |key: &str| key.split(['{', '}']).nth(1).map(str::to_owned);
    let partitions: BTreeSet<_> = keys(&server).iter().filter_map(|(key, _)| partition(key)).collect();
    // 2,000 draws out of 256 leave out 0.1 on average.
    assert!(partitions.len() >= 250, "{} of 256 partitions are used", partitions.len());
}

#[test]
fn nodes_count_each_other() {
    let server = RedisServer::start();
    let counting = RedisStoreConfig { nodes: None, ..config(&server.url()) };
    let (one, two) = (connect(counting.clone()), connect(counting.clone()));
    until("both are counted", || (one.nodes() == 2 && two.nodes() == 2).then_some(()));
    drop(two);
    let told = connect(RedisStoreConfig { nodes: Some(7), ..counting });
    assert_eq!(told.nodes(), 7);
    until("the one that went is forgotten", || (one.nodes() == 1).then_some(()));
}
