//! The parameters of a run.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::error::PlanError;
use crate::payload::Speaks;

/// The parameters of a run: the server, the concurrency, the keys, the rate and the length.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The address of the server.
    pub endpoint: Endpoint,
    /// The number of connections.
    pub connections: usize,
    /// The number of concurrent calls per connection; 1 over HTTP/1.1.
    pub streams: usize,
    /// When calls are sent.
    pub pace: Pace,
    /// The distribution of keys.
    pub keys: Keys,
    /// The length of the phase before the measured one. It uses the same sequence of keys and times.
    pub warm_up: Duration,
    /// The length of the measured phase.
    pub length: Length,
    /// The IDs of processes whose CPU time and memory are measured, such as the server's.
    pub pids: Vec<u32>,
    /// The seed of the random keys and of the Poisson spacing.
    pub seed: u64,
    /// Whether to open a new connection when one is lost or the server is going away, after the server was
    /// reached once. Otherwise that ends the run with an error.
    pub reconnect: bool,
    /// How long a call may take from when it was sent. After that it counts as failed.
    pub call_timeout: Duration,
    /// How long the initial connections may take to be ready, and how long a lost one may stay unavailable.
    pub connect_timeout: Duration,
}

impl Plan {
    /// Creates a plan of one closed-loop connection with one stream that uses one key for five seconds.
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

    /// Checks the plan before anything is sent.
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

/// The address of a server.
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

/// Parses `host:port`, where the host may be a name, or `unix:/path`.
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
    /// Each stream sends its next call as soon as the response to its last one has arrived.
    Closed,
    /// At scheduled times, from which latency is measured.
    Open {
        /// Calls per second over all connections.
        per_second: f64,
        /// Whether the spacing is exponential, as with independent clients, instead of even.
        poisson: bool,
    },
}

/// The distribution of keys. A key is a number from 0; the payload converts it to a text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// Key 0 only.
    Hot,
    /// A uniform distribution over this many keys.
    Uniform(u64),
    /// A Zipf distribution: key k has the weight `(k + 1)^-exponent`.
    Zipf {
        /// The number of keys.
        n: u64,
        /// The exponent; 0 is uniform, 1 the classic Zipf distribution.
        exponent: f64,
    },
    /// The keys 0, 1, 2 and so on to n - 1, then again from 0. With [`Length::Requests`] of n and no warm-up,
    /// each key is used exactly once.
    Sequential(u64),
}

/// The length of the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// This much time. The run then waits for the calls that are still open.
    Time(Duration),
    /// This number of calls.
    Requests(u64),
}
