//! The output of `CLUSTER NODES`: all nodes of a cluster as one of them sees them.

use std::ops::RangeInclusive;

use super::server::RedisServer;

/// A line of `CLUSTER NODES`.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) port: u16,
    pub(super) flags: Vec<String>,
    /// ID of the primary that this node replicates, if it is a replica.
    pub(super) primary: Option<String>,
    /// The configuration epoch. If two nodes claim a slot, the higher epoch wins.
    pub(super) epoch: u64,
    pub(super) connected: bool,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl Node {
    /// Returns the nodes as `server` sees them, or `None` if it does not reply.
    pub(super) fn known_to(server: &RedisServer) -> Option<Vec<Self>> {
        let reply = server.try_command(&["CLUSTER", "NODES"]).ok()?;
        if reply.error().is_some() {
            return None;
        }
        reply.text().lines().map(Self::parse).collect()
    }

    /// Parses a line `id ip:port@bus[,name] flags primary ping pong epoch state slots…`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, primary, _ping, _pong, epoch, state, slots @ ..] = &words[..] else {
            return None;
        };
        let port = address.split_once('@')?.0.rsplit_once(':')?.1;
        Some(Self {
            id: (*id).to_owned(),
            port: port.parse().ok()?,
            flags: flags.split(',').map(str::to_owned).collect(),
            primary: (*primary != "-").then(|| (*primary).to_owned()),
            epoch: epoch.parse().ok()?,
            connected: *state == "connected",
            // Slots that are being migrated are in brackets.
            slots: slots
                .iter()
                .filter(|slot| !slot.starts_with('['))
                .map(|slot| range(slot))
                .collect::<Option<_>>()?,
        })
    }

    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    /// Returns whether the node is connected, known by its ID, and not considered failed.
    pub(super) fn is_well(&self) -> bool {
        self.connected && !["fail", "fail?", "handshake", "noaddr"].iter().any(|flag| self.has_flag(flag))
    }

    pub(super) fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
