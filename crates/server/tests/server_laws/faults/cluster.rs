//! A cluster of six: a primary is killed or hangs, slots move.

use std::time::Duration;

use tidegate_testkit::redis::{Cluster, RedisServer, Reply, Setup};
use tokio::time::Instant;

use super::client::Source;
use super::load::{Asked, Load, go_on_for};
use super::{A_WHILE, CLUSTER_BACK_WITHIN, EVERY_POLICY, LIMIT, SHARE, homes, node, patient_node};
use crate::support::service::Service;

/// A cluster starts with its primaries first.
const PRIMARIES: usize = 3;

/// Two values of a key on each primary.
fn values(node: &Service, cluster: &Cluster, key: &str) -> Vec<Vec<u32>> {
    let primaries: Vec<&RedisServer> = cluster.nodes()[..PRIMARIES].iter().collect();
    homes::values(node, &primaries, key, 2)
}

/// Every policy for each of the values.
fn all_of(values: &[Vec<u32>]) -> Vec<Asked> {
    let policies = |value: &u32| EVERY_POLICY.map(|(key, _)| (key, *value));
    values.iter().flatten().flat_map(policies).collect()
}

/// A failover of the second primary: what it had is a matter of policy until its replica is promoted.
fn failover(fail: impl FnOnce(&RedisServer)) {
    let cluster = Setup::redis().start_cluster();
    let node = node(&cluster.url());
    let values = values(&node, &cluster, "open");
    let load = Load::on(&node, &all_of(&values)).beside(cluster.nodes());
    go_on_for(A_WHILE);
    let old = &cluster.nodes()[1];
    let slot = slot_in(&cluster, 1);
    let fails = Instant::now();
    fail(old);
    let failed = Instant::now();
    cluster.wait_for_failover(slot, old);
    let promoted = Instant::now();
    go_on_for(2 * A_WHILE);
    let notes = load.stop();
    notes.assert_calm();
    let lost = notes.only(|seen| values[1].contains(&seen.value) && seen.key == "open");
    // Nobody is promoted before the primary has been silent for a second.
    lost.assert_policies(failed, fails + Duration::from_millis(900));
    lost.assert_back(promoted, CLUSTER_BACK_WITHIN);
    for value in values.iter().flatten() {
        let notes = notes.only(|seen| seen.value == *value);
        assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
        assert!(notes.admitted("tight", Source::Fallback) <= SHARE);
    }
}

/// A slot of a primary.
fn slot_in(cluster: &Cluster, primary: usize) -> u16 {
    let slot = (0..16_384)
        .step_by(512)
        .find(|slot| cluster.primary_of(*slot).port() == cluster.nodes()[primary].port());
    slot.expect("it has slots")
}

#[test]
fn a_killed_primary_is_replaced() {
    failover(RedisServer::kill);
}

#[test]
fn a_hung_primary_is_replaced() {
    failover(RedisServer::pause);
}

#[test]
fn slots_move_under_load_and_no_decision_notices() {
    let cluster = Setup::redis().start_cluster();
    // A move answers at once, if only to say where to go.
    let node = patient_node(&cluster.url());
    let tight = values(&node, &cluster, "tight").swap_remove(0);
    let open = values(&node, &cluster, "open").swap_remove(0);
    let asked = |key: &'static str, values: &[u32]| values.iter().map(|value| (key, *value)).collect();
    let asked: [Vec<Asked>; 2] = [asked("tight", &tight), asked("open", &open)];
    let load = Load::on(&node, &asked.concat()).beside(cluster.nodes());
    go_on_for(A_WHILE / 4);
    let [from, to, ..] = cluster.nodes() else { panic!("there are six") };
    // Whoever gets the slots has never heard of the script, and hears of it from nobody else.
    to.command(&["SCRIPT", "FLUSH"]);
    let mut moved = 0;
    for slot in slots_with_counters(from) {
        moved += cluster.migrate_slots(from, to, slot..=slot);
    }
    assert!(moved > 0, "there was nothing to move");
    go_on_for(A_WHILE);
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_by_store();
    for value in tight {
        let notes = notes.only(|seen| seen.value == value);
        assert_eq!(notes.admitted("tight", Source::Redis), LIMIT);
    }
}

/// The slots of a server that hold something.
fn slots_with_counters(server: &RedisServer) -> Vec<u16> {
    let keys = server.command(&["KEYS", "*"]);
    let slot =
        |key: &Reply| server.command(&["CLUSTER", "KEYSLOT", &key.text()]).text().parse().expect("a slot");
    let mut slots: Vec<u16> = keys.items().iter().map(slot).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}
