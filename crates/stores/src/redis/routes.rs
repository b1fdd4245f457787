//! Which server has which counters.
//!
//! Counters live in parts, a fixed number of them, and servers have parts. On independent servers a part
//! belongs to the server that draws the highest number for it, so that a new server takes its share from
//! all others and no part moves between those.

use std::sync::Arc;

use crc16::{State as Crc, XMODEM};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::node::Node;
use super::url::Host;

/// Slots of a Redis Cluster.
const SLOTS: u16 = 16_384;

/// The servers and their parts.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) nodes: Vec<Arc<Node>>,
    /// The number of the node of each part.
    by_part: Vec<Option<u16>>,
    /// Whether a call of the script may touch one part only, as in a cluster.
    by_group: bool,
}

/// Where charges go.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) node: &'a Arc<Node>,
    /// What one call of the script can settle; a server may have several.
    pub(super) group: u32,
}

impl Routes {
    /// One server has everything.
    pub(super) fn single(node: Arc<Node>, parts: u32) -> Self {
        Self { nodes: vec![node], by_part: vec![Some(0); parts as usize], by_group: false }
    }

    /// Every server has its share.
    pub(super) fn sharded(nodes: Vec<Arc<Node>>, parts: u32) -> Self {
        let draw = |part: u32, node: &Node| xxh3_64_with_seed(node.name.as_bytes(), u64::from(part));
        let highest = |part| (0..nodes.len()).max_by_key(|number| draw(part, &nodes[*number]));
        let by_part = (0..parts).map(|part| highest(part).map(|number| number as u16)).collect();
        Self { by_part, nodes, by_group: false }
    }

    /// The servers of a cluster have the slots that they say. Those known before stay who they are.
    pub(super) fn cluster(&self, slots: &[(u16, u16, Host)], parts: u32) -> Self {
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
        let node_of = |part: u32| {
            let slot = slot_of(part);
            numbered.iter().find(|(slots, _)| slots.contains(&slot)).map(|(_, number)| *number)
        };
        let by_part = (0..parts).map(node_of).collect();
        Self { nodes, by_part, by_group: true }
    }

    /// Where a part is; `None` if nobody has it just now.
    pub(super) fn of(&self, part: u32) -> Option<Route<'_>> {
        let number = (*self.by_part.get(part as usize)?)?;
        Some(Route { node: &self.nodes[number as usize], group: if self.by_group { part } else { 0 } })
    }

    /// Whether some part has no server just now.
    pub(super) fn is_lacking(&self) -> bool {
        self.by_part.is_empty() || self.by_part.contains(&None)
    }

    /// A part that a server has.
    pub(super) fn part_on(&self, node: &Arc<Node>) -> Option<u32> {
        let number = self.nodes.iter().position(|known| Arc::ptr_eq(known, node))? as u16;
        self.by_part.iter().position(|at| *at == Some(number)).map(|part| part as u32)
    }

    /// Whether both send every part to the same server.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let name = |routes: &Self, part| routes.of(part).map(|route| route.node.name.clone());
        let parts = self.by_part.len().max(other.by_part.len()) as u32;
        self.by_part.len() == other.by_part.len()
            && (0..parts).all(|part| name(self, part) == name(other, part))
    }
}

/// The part, of so many, of what has this half of a key.
///
/// The lowest bits of a half depend on few bits of the text it was made of: of names that are counted up,
/// all would be in a quarter of the parts. The upper bits of a product depend on everything.
pub(super) fn part_of(half: u64, parts: u32) -> u32 {
    let mixed = (half ^ half >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * u64::from(parts)) >> 32) as u32
}

/// The slot of the keys whose name has the part in braces.
pub(super) fn slot_of(part: u32) -> u16 {
    Crc::<XMODEM>::calculate(part.to_string().as_bytes()) % SLOTS
}
