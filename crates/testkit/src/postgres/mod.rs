//! Real `PostgreSQL` servers for tests: each on a free port of 127.0.0.1 with a cluster of its own in a
//! temporary folder, and ended with the value that stands for it, be the test passed, failed or itself killed.
//! The cluster that a system's package makes is never touched.
//!
//! ```no_run
//! use tidegate_testkit::postgres::PostgresServer;
//!
//! let server = PostgresServer::start();
//! let database = server.create_database();
//! assert_eq!(server.query(&database, "SELECT 1 + 1"), "2");
//! let standby = server.start_standby();
//! server.kill();
//! standby.promote();
//! ```
//!
//! # Layout
//!
//! - [`Setup`]: with which settings; starts a server
//! - [`PostgresServer`]: its URLs, questions, [`kill`](PostgresServer::kill),
//!   [`pause`](PostgresServer::pause), [`promote`](PostgresServer::promote)
//! - [`Pooler`]: `PgBouncer` before it
//!
//! `PostgreSQL` refuses to run as root: tests that do start it as the user `postgres` or `nobody`.

mod account;
mod family;
mod pooler;
mod program;
mod server;
mod setup;

pub use pooler::Pooler;
pub use program::program;
pub use server::{PostgresServer, multi_host_url};
pub use setup::Setup;
