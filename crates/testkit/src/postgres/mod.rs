//! Real `PostgreSQL` servers for tests. Each listens on a free port of 127.0.0.1 and has a database cluster
//! of its own in a temporary folder. A server ends when its value is dropped, also if the test fails or is
//! killed. The cluster that the system's package creates is never used.
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
//! - [`Setup`]: the settings of a server; starts it
//! - [`PostgresServer`]: a server: its URLs, queries, [`kill`](PostgresServer::kill),
//!   [`pause`](PostgresServer::pause), [`promote`](PostgresServer::promote)
//! - [`Pooler`]: `PgBouncer` in front of a server
//!
//! `PostgreSQL` does not run as root. If the tests do, they start it as the user `postgres` or `nobody`.

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
