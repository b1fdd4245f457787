//! What a run does.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::error::PlanError;
use crate::payload::Speaks;

/// A run: where to, how many at once, which keys, how fast, how long.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Where the server listens.
    pub endpoint: Endpoint,
    /// Connections held open.
    pub connections: usize,
    /// Calls at once on each connection; 1 over HTTP/1.1.
    pub streams: usize,
    /// When calls are sent.
    pub pace: Pace,
    /// Which keys are asked for.
    pub keys: Keys,
    /// Traffic before the measured part. It takes from the same keys and times.
    pub warm_up: Duration,
    /// When the measured part ends.
    pub length: Length,
    /// Processes whose CPU time and memory are measured, such as the server's.
    pub pids: Vec<u32>,
    /// The same seed draws the same keys and the same Poisson spacing.
    pub seed: u64,
    /// Whether to open a new connection when one is lost or the server is going away, as long as it
    /// was up once. Else that ends the run with an error.
    pub reconnect: bool,
    /// A call without an answer for this long since it was sent is an error.
    pub call_timeout: Duration,
    /// How long the first connections may take to be ready, and how long a lost one may stay away.
    pub connect_timeout: Duration,
}

impl Plan {
    /// One closed-loop connection with one stream, asking for one key for five seconds.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connections: 1,
            streams: 1,
            pace: Pace::Closed,
            keys: Keys::Hot,
            warm_up: Duration::ZERO,
            length: Length::Time(Duration::from_secs(5)),
            pids: Vec::new(),
            seed: 1,
            reconnect: false,
            call_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
        }
    }

    /// Says what is wrong with the plan before anything is sent.
    pub(crate) fn validate(&self, speaks: &Speaks) -> Result<(), PlanError> {
        let at_least_one = |field, value: u64| {
            if value == 0 { Err(PlanError::Zero { field }) } else { Ok(()) }
        };
        at_least_one("connections", self.connections as u64)?;
        at_least_one("streams", self.streams as u64)?;
        at_least_one("call_timeout", self.call_timeout.as_nanos() as u64)?;
        at_least_one("connect_timeout", self.connect_timeout.as_nanos() as u64)?;
        match self.length {
            Length::Time(time) => at_least_one("length", time.as_nanos() as u64)?,
            Length::Requests(requests) => at_least_one("length", requests)?,
        }
        match self.keys {
            Keys::Hot => {}
            Keys::Uniform(n) | Keys::Sequential(n) => at_least_one("keys", n)?,
            Keys::Zipf { n, exponent } => {
                at_least_one("keys", n)?;
                if !(exponent.is_finite() && exponent >= 0.0) {
                    return Err(PlanError::Exponent(exponent));
                }
            }
        }
        if let Pace::Open { per_second, .. } = self.pace
            && !(per_second.is_finite() && per_second > 0.0)
        {
            return Err(PlanError::Rate(per_second));
        }
        if matches!(speaks, Speaks::Http1) && self.streams != 1 {
            return Err(PlanError::StreamsOverHttp1(self.streams));
        }
        Ok(())
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Reads `host:port`, whose name is looked up, or `unix:/path`.
impl FromStr for Endpoint {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let wrong = |reason: String| PlanError::Endpoint { text: text.to_owned(), reason };
        let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        found.next().map(Self::Tcp).ok_or_else(|| wrong("the name has no address".to_owned()))
    }
}

/// When calls are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Each stream sends its next call as soon as the answer to its last came.
    Closed,
    /// At scheduled times, from which latency is measured.
    Open {
        /// Calls per second over all connections.
        per_second: f64,
        /// Exponential spacing, as independent clients give; else even.
        poisson: bool,
    },
}

/// Which keys are asked for. A key is a number from 0; the payload makes a text of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// Key 0 only.
    Hot,
    /// Evenly among this many keys.
    Uniform(u64),
    /// Key k with a weight of (k + 1) to the power of minus the exponent.
    Zipf {
        /// The number of keys.
        n: u64,
        /// 0 is uniform, 1 the classic law.
        exponent: f64,
    },
    /// 0, 1, 2 and so on to n - 1, then again from 0: [`Length::Requests`] of n without warm-up
    /// asks for each key exactly once.
    Sequential(u64),
}

/// When the measured part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// After this long. Calls sent by then are still waited for.
    Time(Duration),
    /// After this many calls.
    Requests(u64),
}
