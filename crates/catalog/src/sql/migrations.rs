//! The tables, forward only. Each step runs once, in the order of its number, and never changes afterwards.
//!
//! Not by sqlx's own means: those do not lock `SQLite` against another process, and hold a lock of a session
//! on `PostgreSQL`, which a pooler may hand to somebody else.

use super::connection::{Arg, Connection};
use crate::error::{Error, Result};

/// The steps on `SQLite` and on `PostgreSQL`, which mean the same.
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

/// Runs what has not been run on this database. Many nodes may come at once: one does it, the others wait.
pub(crate) async fn run(connection: &mut Connection) -> Result<()> {
    let postgres = connection.is_postgres();
    // Both undo the making of tables like anything else, so that a step is done or not at all. The number
    // of the lock is ours for this alone.
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
