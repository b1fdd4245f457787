//! Slots that move from one node to another while clients use them.

use std::ops::RangeInclusive;

use super::client::Reply;
use super::cluster::{Cluster, id};
use super::nodes::Node;
use super::server::RedisServer;
use super::wait::until;

/// How many keys move in one command.
const AT_ONCE: &str = "100";
/// A slot with more than so many times that is no test's.
const ROUNDS: usize = 10_000;
/// How long one such command may take.
const WITHIN_MS: &str = "2000";

impl Cluster {
    /// Moves slots with their keys from one primary to another, as an operator would, and gives how many
    /// keys it moved, once all nodes know. Clients may go on meanwhile; they are told `ASK` and `MOVED`.
    ///
    /// # Panics
    ///
    /// If a node refuses a step.
    pub fn migrate_slots(&self, from: &RedisServer, to: &RedisServer, slots: RangeInclusive<u16>) -> usize {
        let (from_id, to_id) = (id(from), id(to));
        let mut moved = 0;
        for slot in slots {
            let slot = slot.to_string();
            to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
            from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
            moved += move_keys(from, to, &slot);
            let assign = ["CLUSTER", "SETSLOT", &slot, "NODE", &to_id];
            // The new owner first: whoever is sent to it must find it ready.
            to.command(&assign);
            from.command(&assign);
            for other in self.other_primaries(from, to) {
                other.command(&assign);
            }
        }
        // A node that has not heard of the last move would not outbid it with its next.
        until("nodes agree on who has which slots", || self.agree().then_some(()));
        moved
    }

    fn other_primaries(&self, from: &RedisServer, to: &RedisServer) -> Vec<&RedisServer> {
        let known = Node::known_to(to).expect("the new owner answers");
        let is_other = |node: &&RedisServer| {
            let port = node.port();
            let is_primary = known.iter().any(|known| known.port == port && known.has_flag("master"));
            is_primary && node.runs() && port != from.port() && port != to.port()
        };
        self.nodes().iter().filter(is_other).collect()
    }
}

fn move_keys(from: &RedisServer, to: &RedisServer, slot: &str) -> usize {
    let mut moved = 0;
    for _ in 0..ROUNDS {
        let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", slot, AT_ONCE]);
        if keys.items().is_empty() {
            return moved;
        }
        moved += move_now(from, to, keys.items());
    }
    panic!("slot {slot} does not get empty: {moved} keys moved");
}

/// Moves these keys; those that have expired meanwhile do not count.
fn move_now(from: &RedisServer, to: &RedisServer, keys: &[Reply]) -> usize {
    let port = to.port().to_string();
    let kit = super::setup::KIT;
    let head = ["MIGRATE", "127.0.0.1", &port, "", "0", WITHIN_MS, "AUTH2", kit, kit, "KEYS"];
    let names = keys.iter().map(|key| match key {
        Reply::Bulk(name) => name.clone(),
        other => panic!("{other:?} is no key"),
    });
    let command: Vec<Vec<u8>> = head.iter().map(|word| word.as_bytes().to_vec()).chain(names).collect();
    let reply = from.command(&command);
    if reply.text() == "NOKEY" { 0 } else { keys.len() }
}
