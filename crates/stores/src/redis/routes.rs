//! Which server holds which counters.
//!
//! Counters are divided into a fixed number of partitions, and each partition is on one server. With independent
//! servers, a partition belongs to the server with the highest hash for it (rendezvous hashing), so that a new server
//! takes its share from all others and no partition moves between those.

use std::sync::Arc;

use crc16::{State as Crc, XMODEM};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::node::Node;
use super::url::Host;

/// Number of slots of a Redis Cluster.
const SLOTS: u16 = 16_384;

/// The servers and their partitions.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) nodes: Vec<Arc<Node>>,
    /// The node index of each partition.
    by_partition: Vec<Option<u16>>,
    /// Whether a call of the script may touch only one partition, as in a cluster.
    grouped: bool,
}

/// The server and group that charges are sent to.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) node: &'a Arc<Node>,
    /// The group: charges of one group can be settled by one call of the script. A server may have several groups.
    pub(super) group: u32,
}

impl Routes {
    /// Returns routes to one server that holds every partition.
    pub(super) fn single(node: Arc<Node>, partitions: u32) -> Self {
        Self { nodes: vec![node], by_partition: vec![Some(0); partitions as usize], grouped: false }
    }

    /// Returns routes to several independent servers that share the partitions.
    pub(super) fn sharded(nodes: Vec<Arc<Node>>, partitions: u32) -> Self {
        let draw =
            |partition: u32, node: &Node| xxh3_64_with_seed(node.name.as_bytes(), u64::from(partition));
        let highest = |partition| (0..nodes.len()).max_by_key(|number| draw(partition, &nodes[*number]));
        let by_partition = (0..partitions).map(|partition| highest(partition).map(|number| number as u16));
        Self { by_partition: by_partition.collect(), nodes, grouped: false }
    }

    /// Returns routes to the servers of a cluster with these slot ranges. Known nodes are kept.
    pub(super) fn cluster(&self, slots: &[(u16, u16, Host)], partitions: u32) -> Self {
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        let mut number_of = |host: &Host| {
            let name = host.to_string();
            let known = nodes.iter().position(|node| node.name == name);
            known.unwrap_or_else(|| {
                let before = self.nodes.iter().find(|node| node.name == name).map(Arc::clone);
                nodes.push(before.unwrap_or_else(|| Arc::new(Node::new(name, host.clone()))));
                nodes.len() - 1
            }) as u16
        };
        let numbered: Vec<_> =
            slots.iter().map(|(first, last, host)| (*first..=*last, number_of(host))).collect();
        let node_of = |partition: u32| {
            let slot = slot_of(partition);
            numbered.iter().find(|(slots, _)| slots.contains(&slot)).map(|(_, number)| *number)
        };
        let by_partition = (0..partitions).map(node_of).collect();
        Self { nodes, by_partition, grouped: true }
    }

    /// Returns the route of a partition; `None` if no server holds it at the moment.
    pub(super) fn of(&self, partition: u32) -> Option<Route<'_>> {
        let number = (*self.by_partition.get(partition as usize)?)?;
        Some(Route { node: &self.nodes[number as usize], group: if self.grouped { partition } else { 0 } })
    }

    /// Returns whether some partition has no server at the moment.
    pub(super) fn is_lacking(&self) -> bool {
        self.by_partition.is_empty() || self.by_partition.contains(&None)
    }

    /// Returns one of the partitions of a server.
    pub(super) fn partition_on(&self, node: &Arc<Node>) -> Option<u32> {
        let number = self.nodes.iter().position(|known| Arc::ptr_eq(known, node))? as u16;
        self.by_partition.iter().position(|at| *at == Some(number)).map(|partition| partition as u32)
    }

    /// Returns whether both routes send every partition to the same server.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let name = |routes: &Self, partition| routes.of(partition).map(|route| route.node.name.clone());
        let partitions = self.by_partition.len() as u32;
        self.by_partition.len() == other.by_partition.len()
            && (0..partitions).all(|partition| name(self, partition) == name(other, partition))
    }
}

/// Returns the partition of one half of a key, out of `partitions`.
///
/// The lowest bits of a half depend on few bits of the hashed text: numbered names would all be in a quarter of the
/// partitions. The upper bits of a product depend on all bits.
pub(super) fn partition_of(half: u64, partitions: u32) -> u32 {
    let mixed = (half ^ half >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * u64::from(partitions)) >> 32) as u32
}

/// Returns the cluster slot of the keys whose name has the partition in braces.
pub(super) fn slot_of(partition: u32) -> u16 {
    Crc::<XMODEM>::calculate(partition.to_string().as_bytes()) % SLOTS
}
