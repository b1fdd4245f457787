//! What can go wrong with a run, as opposed to with one of its calls.

use std::io;

use thiserror::Error;

use crate::plan::Endpoint;

/// Why a run gave no report.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The first connections could not be opened.
    #[error("{endpoint}: cannot connect: {fault}")]
    Connect {
        /// The server.
        endpoint: Endpoint,
        /// What happened to the connection.
        fault: Fault,
    },
    /// A connection ended, and the plan does not allow for a new one.
    #[error("{endpoint}: connection lost after {requests} requests: {fault}; use --reconnect to go on")]
    Lost {
        /// The server.
        endpoint: Endpoint,
        /// Calls that were settled before.
        requests: u64,
        /// What happened to the connection.
        fault: Fault,
    },
    /// A lost connection could not be opened again in time.
    #[error("{endpoint}: still away {away_s:.1} s after a connection was lost: {fault}")]
    Away {
        /// The server.
        endpoint: Endpoint,
        /// Seconds without a connection.
        away_s: f64,
        /// What happened last.
        fault: Fault,
    },
    /// A process to be measured could not be read.
    #[error("process {pid}: {reason}; is it running?")]
    Process {
        /// The process.
        pid: u32,
        /// What reading `/proc` gave.
        reason: String,
    },
    /// The operating system refused a poll, a timer or a clock.
    #[error("the generator itself failed: {0}")]
    Io(#[from] io::Error),
}

/// Why a plan cannot be carried out.
#[derive(Debug, Error, PartialEq)]
pub enum PlanError {
    /// A number that must not be 0 is.
    #[error("{field} must be at least 1, got 0")]
    Zero {
        /// The field of the plan.
        field: &'static str,
    },
    /// The open loop's rate is no rate.
    #[error("per_second must be a number above 0, got {0}")]
    Rate(f64),
    /// The exponent is none of a zipf law.
    #[error("the zipf exponent must be a number from 0, got {0}")]
    Exponent(f64),
    /// HTTP/1.1 carries one call at a time.
    #[error("streams must be 1 over HTTP/1.1, got {0}; ask for more connections instead")]
    StreamsOverHttp1(usize),
    /// Not an address.
    #[error("`{text}` is no endpoint: {reason}; write `host:port` or `unix:/path`")]
    Endpoint {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What ended a connection.
#[derive(Debug, Error)]
pub enum Fault {
    /// The operating system says so, such as `Connection refused`.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server closed it.
    #[error("the server closed the connection")]
    Closed,
    /// The server said so before it closed.
    #[error("the server is going away ({0})")]
    GoAway(String),
    /// Not ready in time.
    #[error("not ready within {0:.1} s; does the server speak this protocol here, without TLS?")]
    Slow(f64),
    /// HTTP/1 where HTTP/2 was spoken.
    #[error("the server answers HTTP/1 to HTTP/2; is this its gRPC port?")]
    AnswersHttp1,
    /// HTTP/2 where HTTP/1 was spoken.
    #[error("the server answers HTTP/2 to HTTP/1.1; is this its gRPC port?")]
    AnswersHttp2,
    /// Bytes that break the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
}
