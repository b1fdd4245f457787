//! What is simulated.

use serde::Serialize;
use tidegate_core::Limit;

use crate::report::Report;
use crate::traffic::Traffic;
use crate::world::World;

/// How nodes share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Every request asks the shared store.
    Exact,
    /// Nodes take units from the shared store and spend them.
    Leased,
    /// Nodes decide alone and exchange counts.
    Synced {
        /// Microseconds from one exchange to the next.
        every_us: u64,
    },
}

impl Consistency {
    /// Returns the name of the mode, as in a table.
    pub fn name(self) -> String {
        match self {
            Self::Exact => "exact".to_owned(),
            Self::Leased => "leased".to_owned(),
            Self::Synced { every_us } => format!("synced {} ms", every_us / 1000),
        }
    }
}

/// Something that goes wrong, at a time since the start in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node loses all that it holds, and is back after `down_us` with the same clock.
    Crash {
        /// Index of the node.
        node: usize,
        /// When.
        at_us: u64,
        /// For how long it is down. Its requests go nowhere in that time.
        down_us: u64,
    },
    /// A node stands still for a while, as by SIGSTOP. What arrives waits, and is processed when it goes on.
    Pause {
        /// Index of the node.
        node: usize,
        /// When.
        at_us: u64,
        /// For how long.
        for_us: u64,
    },
    /// A node returns all units and starts again, as in a rolling restart.
    Restart {
        /// Index of the node.
        node: usize,
        /// When.
        at_us: u64,
    },
    /// No message passes between a node and the store.
    Partition {
        /// Index of the node.
        node: usize,
        /// When.
        at_us: u64,
        /// For how long.
        for_us: u64,
    },
    /// The store is replaced by a copy that lacks the last writes.
    Failover {
        /// When.
        at_us: u64,
        /// How much of the past is lost.
        lost_us: u64,
    },
}

/// What the network does to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The shortest time that a message takes one way.
    pub fastest_us: u64,
    /// The longest time that most messages take one way.
    pub usual_us: u64,
    /// How many of a thousand messages take up to fifty times as long.
    pub slow_permille: u64,
    /// How many of a thousand messages are lost.
    pub lost_permille: u64,
    /// How many of a thousand calls that take units arrive twice. Returns are never repeated.
    pub repeated_permille: u64,
    /// How long a node waits for a reply.
    pub deadline_us: u64,
}

impl Network {
    /// A network in which nothing goes wrong.
    pub const GOOD: Self = Self {
        fastest_us: 100,
        usual_us: 500,
        slow_permille: 0,
        lost_permille: 0,
        repeated_permille: 0,
        deadline_us: 15_000,
    };
}

/// Everything that is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed of all that is random.
    pub seed: u64,
    /// The limit that the nodes share.
    pub limit: Limit,
    /// How they share it.
    pub consistency: Consistency,
    /// The traffic of each node; its length is the number of nodes.
    pub traffic: Vec<Traffic>,
    /// How many keys there are. Nine of ten requests are for the first one.
    pub keys: usize,
    /// How many microseconds are simulated.
    pub duration_us: u64,
    /// The network between the nodes and the store.
    pub network: Network,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// For how long leased units are held at most, in microseconds.
    pub longest_us: u64,
}

impl Scenario {
    /// Ten seconds of one node with 100 requests per second for one key, on a good network.
    pub fn new(seed: u64, limit: Limit, consistency: Consistency) -> Self {
        Self {
            seed,
            limit,
            consistency,
            traffic: vec![Traffic::Steady { per_second: 100 }],
            keys: 1,
            duration_us: 10_000_000,
            network: Network::GOOD,
            faults: Vec::new(),
            longest_us: 1_000_000,
        }
    }

    /// Runs the scenario from start to end.
    pub fn run(&self) -> Report {
        World::new(self).run()
    }
}
