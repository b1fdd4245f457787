//! Creates and updates the tables. Steps run once, in order, and a released step is never changed.
//!
//! These are not the migrations of sqlx, which do not lock `SQLite` against other processes, and on
//! `PostgreSQL` hold a session lock, which a pooler may pass on to another client.

use super::connection::{Arg, Connection};
use super::statement::Commit;
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
/// Makes other nodes wait. The number is used for nothing else.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8388034110672564583)";
const KNOWN: u64 = STEPS.len() as u64;

/// Runs the steps that have not run on this database yet. If many nodes call this at once, one runs the steps
/// and the others wait.
pub(crate) async fn run(connection: &mut Connection) -> Result<()> {
    while run_missing(connection).await? == Commit::Superseded {}
    Ok(())
}

/// Runs the steps that have not run yet, in one transaction. In both databases a transaction covers the
/// creation of tables, so a step is done completely or not at all.
async fn run_missing(connection: &mut Connection) -> Result<Commit> {
    let postgres = connection.is_postgres();
    connection.begin(if postgres { "BEGIN" } else { "BEGIN IMMEDIATE" }).await?;
    if postgres {
        connection.script(LOCK).await?;
    }
    connection.script("CREATE TABLE IF NOT EXISTS catalog_steps (step BIGINT PRIMARY KEY)").await?;
    if connection.is_per_statement() {
        // The table must exist before it can be read. What is written below fails if another node has run
        // the same step in between.
        let (Commit::Done | Commit::Superseded) = connection.commit().await?;
        connection.script(LOCK).await?;
    }
    let done = connection.row("SELECT max(step) FROM catalog_steps", &[], |row| row.maybe_number(0)).await?;
    let done = done.flatten().unwrap_or(0);
    if done > KNOWN {
        return Err(Error::Other(format!(
            "its tables are of a newer version (step {done}, this program knows {KNOWN}): upgrade tidegate"
        )));
    }
    for (number, (on_sqlite, on_postgres)) in (1..).zip(STEPS).skip(done as usize) {
        connection
            .execute("INSERT INTO catalog_steps (step) VALUES ($1)", &[Arg::Number(Some(number))])
            .await?;
        connection.script(if postgres { on_postgres } else { on_sqlite }).await?;
    }
    connection.commit().await
}
