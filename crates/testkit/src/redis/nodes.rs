//! What a node of a cluster says of all of them.

use std::ops::RangeInclusive;

use super::server::RedisServer;

/// A line of `CLUSTER NODES`.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) port: u16,
    pub(super) flags: Vec<String>,
    /// Whom it follows.
    pub(super) primary: Option<String>,
    /// The higher wins where two claim a slot.
    pub(super) epoch: u64,
    pub(super) connected: bool,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl Node {
    /// What this one says, or nothing if it does not answer.
    pub(super) fn known_to(server: &RedisServer) -> Option<Vec<Self>> {
        let reply = server.try_command(&["CLUSTER", "NODES"]).ok()?;
        if reply.error().is_some() {
            return None;
        }
        reply.text().lines().map(Self::parse).collect()
    }

    /// `id ip:port@bus[,name] flags primary ping pong epoch state slots…`
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, place, flags, primary, _ping, _pong, epoch, state, slots @ ..] = &words[..] else {
            return None;
        };
        let port = place.split_once('@')?.0.rsplit_once(':')?.1;
        Some(Self {
            id: (*id).to_owned(),
            port: port.parse().ok()?,
            flags: flags.split(',').map(str::to_owned).collect(),
            primary: (*primary != "-").then(|| (*primary).to_owned()),
            epoch: epoch.parse().ok()?,
            connected: *state == "connected",
            // Slots on the move stand in brackets.
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

    /// Whether it is there to be asked: known by its id, and not believed dead.
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
