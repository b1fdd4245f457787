//! The errors of a run. Errors of single calls are counted in the report.

use std::io;

use thiserror::Error;

use crate::plan::Endpoint;

/// Reasons why a run ends without a report.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The initial connections could not be opened.
    #[error("{endpoint}: cannot connect: {fault}")]
    Connect {
        /// The server.
        endpoint: Endpoint,
        /// What happened to the connection.
        fault: Fault,
    },
    /// A connection ended, and the plan does not allow a new one.
    #[error("{endpoint}: connection lost after {requests} requests: {fault}; use --reconnect to continue")]
    Lost {
        /// The server.
        endpoint: Endpoint,
        /// The number of calls finished before that.
        requests: u64,
        /// What happened to the connection.
        fault: Fault,
    },
    /// A lost connection could not be opened again in time.
    #[error("{endpoint}: still unreachable {away_s:.1} s after a connection was lost: {fault}")]
    Away {
        /// The server.
        endpoint: Endpoint,
        /// Seconds without a connection.
        away_s: f64,
        /// The last error.
        fault: Fault,
    },
    /// The counters of a process to be measured could not be read.
    #[error("process {pid}: {reason}; is it running?")]
    Process {
        /// The process ID.
        pid: u32,
        /// The error of reading `/proc`.
        reason: String,
    },
    /// A system call of the generator failed.
    #[error("the generator itself failed: {0}")]
    Io(#[from] io::Error),
}

/// Reasons why a plan is invalid.
#[derive(Debug, Error, PartialEq)]
pub enum PlanError {
    /// A number is 0 that must not be.
    #[error("{field} must be at least 1, got 0")]
    Zero {
        /// The field of the plan.
        field: &'static str,
    },
    /// The rate of the open loop is not a positive number.
    #[error("per_second must be a number above 0, got {0}")]
    Rate(f64),
    /// The exponent of the Zipf distribution is negative or not finite.
    #[error("the zipf exponent must be a number of at least 0, got {0}")]
    Exponent(f64),
    /// More than one stream over HTTP/1.1, which carries one call at a time.
    #[error("streams must be 1 over HTTP/1.1, got {0}; ask for more connections instead")]
    StreamsOverHttp1(usize),
    /// The text is not a valid endpoint.
    #[error("`{text}` is not a valid endpoint: {reason}; write `host:port` or `unix:/path`")]
    Endpoint {
        /// The rejected text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub enum Fault {
    /// An error of the operating system, such as `Connection refused`.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server announced that it is going away, with this reason.
    #[error("the server is going away ({0})")]
    GoAway(String),
    /// The connection was not ready within this many seconds.
    #[error("not ready within {0:.1} s; does the server speak this protocol here, without TLS?")]
    Slow(f64),
    /// The server replied with HTTP/1 to HTTP/2.
    #[error("the server replied with HTTP/1 to HTTP/2; is this its gRPC port?")]
    AnswersHttp1,
    /// The server replied with HTTP/2 to HTTP/1.1.
    #[error("the server replied with HTTP/2 to HTTP/1.1; is this its gRPC port?")]
    AnswersHttp2,
    /// The server sent bytes that violate the protocol.
    #[error("the server violated the protocol: {0}")]
    Protocol(String),
}
