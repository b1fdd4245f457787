//! Access to the two databases. This module hides their differences, and knows nothing of what is stored.
//!
//! - [`batch`]: statements that write many rows
//! - [`connection`]: statements and rows, the same for both databases
//! - [`listing`]: queries with optional conditions
//! - [`migrations`]: creates and updates the tables
//! - [`pool`]: the connection pool
//! - [`postgres`], [`sqlite`]: how to connect
//! - [`statement`]: connections through a pooler in statement mode
//! - `session`: transactions

pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod listing;
pub(crate) mod migrations;
pub(crate) mod pool;
pub(crate) mod postgres;
pub(crate) mod session;
pub(crate) mod sqlite;
pub(crate) mod statement;

pub(crate) use connection::{Arg, Row};
pub(crate) use listing::Listing;
pub(crate) use session::Session;
pub(crate) use statement::Commit;
