//! Migrates cluster slots from one node to another while clients use them.

use std::ops::RangeInclusive;

use super::client::Reply;
use super::cluster::{Cluster, id};
use super::nodes::Node;
use super::server::RedisServer;
use super::wait::until;

/// The number of keys that one command moves.
const AT_ONCE: &str = "100";
/// The most commands per slot. No test has more keys.
const ROUNDS: usize = 10_000;
/// How long one command may take, in milliseconds.
const WITHIN_MS: &str = "2000";

impl Cluster {
    /// Moves slots with their keys from one primary to another, as an operator would. Returns the number of
    /// keys moved once all nodes know the new owner. Meanwhile clients are redirected with `ASK` and `MOVED`.
    ///
    /// # Panics
    ///
    /// Panics if a node rejects a command.
    pub fn migrate_slots(&self, from: &RedisServer, to: &RedisServer, slots: RangeInclusive<u16>) -> usize {
        let (from_id, to_id) = (id(from), id(to));
        let mut moved = 0;
        for slot in slots {
            let slot = slot.to_string();
            to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
            from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
            moved += move_keys(from, to, &slot);
            let assign = ["CLUSTER", "SETSLOT", &slot, "NODE", &to_id];
            // The new owner first: it must be ready when clients are redirected to it.
            to.command(&assign);
            from.command(&assign);
            for other in self.other_primaries(from, to) {
                other.command(&assign);
            }
        }
        // A node that does not know the last migration would not use a higher epoch for the next one.
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
    panic!("slot {slot} does not become empty: {moved} keys moved");
}

/// Moves keys with one command, and returns how many; 0 if all of them have expired in the meantime.
fn move_now(from: &RedisServer, to: &RedisServer, keys: &[Reply]) -> usize {
    let port = to.port().to_string();
    let kit = super::setup::KIT;
    let head = ["MIGRATE", "127.0.0.1", &port, "", "0", WITHIN_MS, "AUTH2", kit, kit, "KEYS"];
    let names = keys.iter().map(|key| match key {
        Reply::Bulk(name) => name.clone(),
        other => panic!("{other:?} is not a key"),
    });
    let command: Vec<Vec<u8>> = head.iter().map(|word| word.as_bytes().to_vec()).chain(names).collect();
    let reply = from.command(&command);
    if reply.text() == "NOKEY" { 0 } else { keys.len() }
}
