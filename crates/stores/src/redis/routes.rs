//! Which server has which counters.
//!
//! Counters live in a fixed number of partitions, and servers have partitions. On independent servers a
//! partition belongs to the server that draws the highest number for it, so that a new server takes its share
//! from all others and no partition moves between those.

use std::sync::Arc;

use crc16::{State as Crc, XMODEM};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::node::Node;
use super::url::Host;

/// Slots of a Redis Cluster.
const SLOTS: u16 = 16_384;

/// The servers and their partitions.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) nodes: Vec<Arc<Node>>,
    /// The index of the node of each partition.
    by_partition: Vec<Option<u16>>,
    /// Whether a call of the script may touch one partition only, as in a cluster.
    grouped: bool,
}

/// Where charges go.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) node: &'a Arc<Node>,
    /// Charges of one group can be settled by one call of the script; a server may have several groups.
    pub(super) group: u32,
}

impl Routes {
    /// One server has every partition.
    pub(super) fn single(node: Arc<Node>, partitions: u32) -> Self {
        Self { nodes: vec![node], by_partition: vec![Some(0); partitions as usize], grouped: false }
    }

    /// Each of several independent servers has its share of the partitions.
    pub(super) fn sharded(nodes: Vec<Arc<Node>>, partitions: u32) -> Self {
        let draw =
            |partition: u32, node: &Node| xxh3_64_with_seed(node.name.as_bytes(), u64::from(partition));
        let highest = |partition| (0..nodes.len()).max_by_key(|number| draw(partition, &nodes[*number]));
        let by_partition = (0..partitions).map(|partition| highest(partition).map(|number| number as u16));
        Self { by_partition: by_partition.collect(), nodes, grouped: false }
    }

    /// The servers of a cluster have these ranges of slots. Nodes that are known already are kept.
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

    /// Returns where a partition is; `None` if no server has it just now.
    pub(super) fn of(&self, partition: u32) -> Option<Route<'_>> {
        let number = (*self.by_partition.get(partition as usize)?)?;
        Some(Route { node: &self.nodes[number as usize], group: if self.grouped { partition } else { 0 } })
    }

    /// Returns whether some partition has no server just now.
    pub(super) fn is_lacking(&self) -> bool {
        self.by_partition.is_empty() || self.by_partition.contains(&None)
    }

    /// Returns one of the partitions that a server has.
    pub(super) fn partition_on(&self, node: &Arc<Node>) -> Option<u32> {
        let number = self.nodes.iter().position(|known| Arc::ptr_eq(known, node))? as u16;
        self.by_partition.iter().position(|at| *at == Some(number)).map(|partition| partition as u32)
    }

    /// Returns whether both send every partition to the same server.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let name = |routes: &Self, partition| routes.of(partition).map(|route| route.node.name.clone());
        let partitions = self.by_partition.len() as u32;
        self.by_partition.len() == other.by_partition.len()
            && (0..partitions).all(|partition| name(self, partition) == name(other, partition))
    }
}

/// Returns the partition, of so many, for one half of a key.
///
/// The lowest bits of a half depend on few bits of the text it was made of: names that are counted up would
/// all be in a quarter of the partitions. The upper bits of a product depend on everything.
pub(super) fn partition_of(half: u64, partitions: u32) -> u32 {
    let mixed = (half ^ half >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * u64::from(partitions)) >> 32) as u32
}

/// Returns the cluster slot of the keys whose name has the partition in braces.
pub(super) fn slot_of(partition: u32) -> u16 {
    Crc::<XMODEM>::calculate(partition.to_string().as_bytes()) % SLOTS
}
