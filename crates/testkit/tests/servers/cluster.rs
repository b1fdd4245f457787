//! Redis Cluster.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use tidegate_testkit::redis::{Client, Cluster, PATIENCE, Setup};

/// Returns a key whose slot depends only on `tag`.
fn key(tag: &str, number: usize) -> String {
    format!("{{{tag}}}{number}")
}

#[test]
fn every_slot_has_one_of_three_primaries_and_every_primary_a_replica() {
    let cluster = Setup::redis().start_cluster();
    assert_eq!(cluster.nodes().len(), 6);
    assert!(cluster.url().starts_with("redis+cluster://127.0.0.1:"));
    let slots = [0, 5460, 5461, 10921, 10922, 10923, 16383];
    let owners: BTreeSet<u16> = slots.map(|slot| cluster.primary_of(slot).port()).into();
    assert_eq!(owners.len(), 3);
    let replicas: BTreeSet<u16> =
        slots.map(|slot| cluster.replica_of(cluster.primary_of(slot)).port()).into();
    assert_eq!(replicas.len(), 3);
    assert!(owners.is_disjoint(&replicas));
}

/// Increments a key as a cluster client does, following redirects.
fn add_one(cluster: &Cluster, key: &str) {
    let mut address = cluster.nodes()[0].address();
    let mut asking = false;
    for _ in 0..10 {
        let mut client = Client::connect(address, PATIENCE).expect("the node listens");
        if asking {
            client.ask(&["ASKING"]).expect("an answer");
        }
        let reply = client.ask(&["INCR", key]).expect("an answer");
        let Some(error) = reply.error() else { return };
        let words: Vec<&str> = error.split(' ').collect();
        let [kind @ ("MOVED" | "ASK"), _, target] = words[..] else { panic!("{error}") };
        (asking, address) = (kind == "ASK", target.parse().expect("an address"));
    }
    panic!("ten redirects without a reply");
}

#[test]
fn nothing_is_lost_while_slots_move_under_load() {
    const KEYS: usize = 40;
    let cluster = Setup::valkey().start_cluster();
    let keys: Vec<String> = (0..KEYS).map(|number| key("load", number)).collect();
    let slot = cluster.slot_of(&keys[0]);
    let from = cluster.primary_of(slot);
    let to = cluster.nodes()[..3].iter().find(|node| node.port() != from.port()).unwrap();
    let moving = AtomicBool::new(true);
    let added = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut added = 0;
            while moving.load(Relaxed) || added < KEYS {
                add_one(&cluster, &keys[added % KEYS]);
                added += 1;
            }
            added
        });
        for _ in 0..5 {
            cluster.migrate_slots(from, to, slot..=slot);
            cluster.migrate_slots(to, from, slot..=slot);
        }
        cluster.migrate_slots(from, to, slot..=slot);
        moving.store(false, Relaxed);
        load.join().unwrap()
    });
    let counts = keys.iter().map(|key| to.command(&["GET", key]).text().parse::<usize>().unwrap());
    assert_eq!(counts.sum::<usize>(), added);
    cluster.wait_until_whole();
}

#[test]
fn keys_move_with_their_slot_and_keep_their_expiry() {
    let cluster = Setup::redis().start_cluster();
    let slot = cluster.slot_of(&key("tag", 0));
    let from = cluster.primary_of(slot);
    let to = cluster.nodes()[..3].iter().find(|node| node.port() != from.port()).unwrap();
    for number in 0..250 {
        from.command(&["SET", &key("tag", number), &number.to_string(), "EX", "1000"]);
    }
    assert_eq!(cluster.migrate_slots(from, to, slot..=slot), 250);
    assert_eq!(cluster.primary_of(slot).port(), to.port());
    for number in 0..250 {
        assert_eq!(to.command(&["GET", &key("tag", number)]).text(), number.to_string());
    }
    assert!(to.command(&["TTL", &key("tag", 7)]).integer() > 900);
    let moved = from.try_command(&["GET", &key("tag", 0)]).unwrap();
    assert_eq!(moved.error(), Some(&*format!("MOVED {slot} {}", to.address())));
    cluster.wait_until_whole();
}

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let cluster = Setup::redis().password("secret").start_cluster();
    let slot = cluster.slot_of("key");
    let first = cluster.primary_of(slot);
    let replica = cluster.replica_of(first);
    first.command(&["SET", "key", "value"]);
    first.command(&["WAIT", "1", "10000"]);
    first.kill();
    let second = cluster.wait_for_failover(slot, first);
    assert_eq!(second.port(), replica.port());
    assert_eq!(second.command(&["GET", "key"]).text(), "value");
    first.restart();
    cluster.wait_until_whole();
    assert_eq!(cluster.replica_of(second).port(), first.port());
}

#[test]
fn a_hung_primary_is_replaced() {
    let cluster = Setup::valkey().start_cluster();
    let slot = cluster.slot_of("key");
    let first = cluster.primary_of(slot);
    first.pause();
    let second = cluster.wait_for_failover(slot, first);
    second.command(&["SET", "key", "value"]);
    first.resume();
    cluster.wait_until_whole();
    assert_eq!(cluster.primary_of(slot).port(), second.port());
    assert_eq!(cluster.replica_of(second).port(), first.port());
}
