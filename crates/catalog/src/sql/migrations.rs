//! Creates and updates the tables. Steps run once, in order, and a released step is never changed.
//!
//! These are not the migrations of sqlx, which do not lock `SQLite` against other processes, and on
//! `PostgreSQL` hold a session lock, which a pooler may pass on to another client.

use super::connection::{Arg, Connection};
use crate::error::{Error, Result};

/// The steps, each for `SQLite` and for `PostgreSQL`.
const STEPS: [(&str, &str); 2] = [
    (
        include_str!("../../migrations/sqlite/0001_catalog.sql"),
        include_str!("../../migrations/postgres/0001_catalog.sql"),
    ),
    (
        include_str!("../../migrations/sqlite/0002_retention.sql"),
        include_str!("../../migrations/postgres/0002_retention.sql"),
    ),
];
const KNOWN: u64 = STEPS.len() as u64;

/// Runs the steps that have not run on this database yet. If many nodes call this at once, one runs the steps
/// and the others wait.
pub(crate) async fn run(connection: &mut Connection) -> Result<()> {
    let postgres = connection.is_postgres();
    // In both databases a transaction covers the creation of tables, so a step is done completely or not at
    // all. The number of the lock is used for nothing else.
    let begin =
        if postgres { "BEGIN; SELECT pg_advisory_xact_lock(8388034110672564583)" } else { "BEGIN IMMEDIATE" };
    connection.script(begin).await?;
    connection.script("CREATE TABLE IF NOT EXISTS catalog_steps (step BIGINT PRIMARY KEY)").await?;
    let done = connection.row("SELECT max(step) FROM catalog_steps", &[], |row| row.maybe_number(0)).await?;
    let done = done.flatten().unwrap_or(0);
    if done > KNOWN {
        return Err(Error::Other(format!(
            "its tables are of a newer version (step {done}, this program knows {KNOWN}): upgrade tidegate"
        )));
    }
    for (number, (on_sqlite, on_postgres)) in (1..).zip(STEPS).skip(done as usize) {
        connection.script(if postgres { on_postgres } else { on_sqlite }).await?;
        connection
            .execute("INSERT INTO catalog_steps (step) VALUES ($1)", &[Arg::Number(Some(number))])
            .await?;
    }
    connection.script("COMMIT").await
}
