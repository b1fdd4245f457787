//! The databases: what differs between them, and nothing of what is stored.
//!
//! - [`batch`]: many rows at once
//! - [`connection`]: questions and answers, the same for both
//! - [`listing`]: questions with conditions
//! - [`migrations`]: the tables
//! - [`pool`]: connections that are kept
//! - [`postgres`], [`sqlite`]: how to connect
//! - [`session`]: a transaction

pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod listing;
pub(crate) mod migrations;
pub(crate) mod pool;
pub(crate) mod postgres;
pub(crate) mod session;
pub(crate) mod sqlite;

pub(crate) use connection::{Arg, Row};
pub(crate) use listing::Listing;
pub(crate) use session::Session;
