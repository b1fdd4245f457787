//! A Redis Cluster of three primaries with one replica each.

use std::collections::BTreeSet;

use super::nodes::Node;
use super::server::{RedisServer, url_of_many};
use super::setup::Setup;
use super::wait::until;

const SLOTS: u16 = 16_384;
const PRIMARIES: usize = 3;
const NODES: usize = 6;
/// A node that is silent for this many milliseconds is considered down.
const NODE_TIMEOUT_MS: &str = "1000";

/// A cluster of six nodes. At the start the first three are primaries, and each of the others replicates one
/// of them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Setup {
    /// Starts six nodes with this setup, joins them, and waits until every node sees a complete cluster.
    ///
    /// # Panics
    ///
    /// Panics if a node does not start, or with [`tls`](Self::tls), which only single servers support.
    pub fn start_cluster(&self) -> Cluster {
        assert!(!self.tls, "the kit has TLS for single servers only");
        let setup = self.clone().with_defaults(&[
            ("cluster-enabled", "yes"),
            ("cluster-node-timeout", NODE_TIMEOUT_MS),
            // A replica may be elected however long ago it last heard from its primary.
            ("cluster-replica-validity-factor", "0"),
        ]);
        let cluster = Cluster { nodes: RedisServer::start_many(&setup, NODES) };
        cluster.join();
        cluster
    }
}

impl Cluster {
    fn join(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            // Otherwise all nodes begin with the same epoch and first have to resolve the conflict.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if index < PRIMARIES {
                // One by one: versions before 7 do not support ranges.
                let slots = share(index).map(|slot| slot.to_string());
                let command: Vec<String> =
                    ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots).collect();
                node.command(&command);
            }
        }
        // Every node meets every other one: waiting for gossip takes seconds.
        for (index, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[index + 1..] {
                node.command(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]);
            }
        }
        until("all nodes know each other", || self.nodes.iter().all(|node| knows(node, NODES)).then_some(()));
        for (replica, primary) in self.nodes[PRIMARIES..].iter().zip(&self.nodes) {
            replica.command(&["CLUSTER", "REPLICATE", &id(primary)]);
        }
        self.wait_until_whole();
    }

    /// Returns a `redis+cluster://` URL with all nodes.
    pub fn url(&self) -> String {
        url_of_many("redis+cluster", &self.nodes)
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the slot of a key.
    ///
    /// # Panics
    ///
    /// Panics if no node is running.
    pub fn slot_of(&self, key: &str) -> u16 {
        let node = self.nodes.iter().find(|node| node.runs()).expect("a node runs");
        node.command(&["CLUSTER", "KEYSLOT", key]).text().parse().expect("a slot")
    }

    /// Returns the primary of a slot according to the highest epoch that any node knows. It may be dead or
    /// paused, if the cluster has not replaced it yet.
    ///
    /// # Panics
    ///
    /// Panics if no node knows one in time.
    pub fn primary_of(&self, slot: u16) -> &RedisServer {
        until("a slot has a primary", || self.claimant(slot))
    }

    fn claimant(&self, slot: u16) -> Option<&RedisServer> {
        let known = self.nodes.iter().filter(|node| node.runs()).filter_map(Node::known_to).flatten();
        let newest = known.filter(|node| node.owns(slot)).max_by_key(|node| node.epoch)?;
        self.nodes.iter().find(|node| node.port() == newest.port)
    }

    /// Returns the replica of a primary, as that primary sees it.
    ///
    /// # Panics
    ///
    /// Panics if it has none.
    pub fn replica_of(&self, primary: &RedisServer) -> &RedisServer {
        let known = Node::known_to(primary).expect("the primary answers");
        let own = known.iter().find(|node| node.has_flag("myself")).expect("a node knows itself");
        let replica = known.iter().find(|node| node.primary.as_ref() == Some(&own.id));
        let port = replica.expect("the primary has a replica").port;
        self.nodes.iter().find(|node| node.port() == port).expect("the node is of this cluster")
    }

    /// Waits until another node than `old` owns the slot and every running node reports the cluster state as
    /// ok. Returns the new primary.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_for_failover(&self, slot: u16, old: &RedisServer) -> &RedisServer {
        until("a replica was promoted", || {
            let primary = self.claimant(slot).filter(|primary| primary.port() != old.port())?;
            let mut running = self.nodes.iter().filter(|node| node.runs());
            running.all(is_ok).then_some(primary)
        })
    }

    /// Waits until every node is running and reports the cluster state as ok, all nodes agree on the owners
    /// of the slots, and every replica is in sync with its primary.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_until_whole(&self) {
        until("the cluster is whole", || {
            let well = |node: &RedisServer| is_ok(node) && knows(node, NODES) && is_in_step(node);
            if !self.nodes.iter().all(well) {
                return None;
            }
            self.agree().then_some(())
        });
    }

    /// Returns whether all running nodes have the same view of the cluster.
    pub(super) fn agree(&self) -> bool {
        let running = self.nodes.iter().filter(|node| node.runs());
        let views: Option<BTreeSet<Vec<String>>> = running.map(view).collect();
        views.is_some_and(|views| views.len() == 1)
    }
}

/// Returns the slots of one primary. All primaries get about the same number.
fn share(index: usize) -> std::ops::Range<u16> {
    let bound = |index: usize| (usize::from(SLOTS) * index / PRIMARIES) as u16;
    bound(index)..bound(index + 1)
}

/// Returns the cluster ID of a node.
pub(super) fn id(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "MYID"]).text()
}

fn is_ok(node: &RedisServer) -> bool {
    let info = node.try_command(&["CLUSTER", "INFO"]);
    info.is_ok_and(|info| info.error().is_none() && info.text().contains("cluster_state:ok"))
}

/// Returns whether a node sees `count` healthy nodes, including itself.
fn knows(node: &RedisServer, count: usize) -> bool {
    let known = Node::known_to(node).unwrap_or_default();
    known.len() == count && known.iter().all(Node::is_well)
}

/// Returns whether a replica is linked to its primary, or a primary has one replica.
fn is_in_step(node: &RedisServer) -> bool {
    match node.info("role").as_deref() {
        Some("slave") => node.info("master_link_status").as_deref() == Some("up"),
        Some(_) => node.info("connected_slaves").as_deref() == Some("1"),
        None => false,
    }
}

/// Returns a node's view of the slot owners, their epochs and the replicas, sorted so that views can be
/// compared.
fn view(node: &RedisServer) -> Option<Vec<String>> {
    let line = |node: Node| match &node.primary {
        Some(primary) => format!("{} follows {primary}", node.id),
        None => format!("{} has {:?} since {}", node.id, node.slots, node.epoch),
    };
    let mut view: Vec<String> = Node::known_to(node)?.into_iter().map(line).collect();
    view.sort();
    Some(view)
}
