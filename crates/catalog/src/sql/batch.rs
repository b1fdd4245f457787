//! Statements that write many rows at once. A copy of a large catalog is written in full.

use super::connection::{Arg, Connection};
use crate::error::Result;

/// The number of rows per statement. `SQLite` searches all arguments of a statement for each one, so larger
/// statements are slower.
const BATCH: usize = 25;

/// Inserts rows. `into` is the table with its columns; `conflict` is the `ON CONFLICT` clause, or empty.
pub(crate) async fn insert(
    connection: &mut Connection,
    into: &str,
    rows: &[Vec<Arg>],
    conflict: &str,
) -> Result<()> {
    for batch in rows.chunks(BATCH) {
        let mut sql = format!("INSERT INTO {into} VALUES ");
        let mut first = 1;
        for (index, row) in batch.iter().enumerate() {
            sql += if index == 0 { "(" } else { ", (" };
            sql += &marks(first, row.len());
            sql += ")";
            first += row.len();
        }
        sql += conflict;
        connection.execute(sql, &batch.concat()).await?;
    }
    Ok(())
}

/// Deletes the rows of a table whose `column` is one of `names`.
pub(crate) async fn delete(
    connection: &mut Connection,
    table: &str,
    column: &str,
    names: &[Arg],
) -> Result<()> {
    for batch in names.chunks(BATCH) {
        let sql = format!("DELETE FROM {table} WHERE {column} IN ({})", marks(1, batch.len()));
        connection.execute(sql, batch).await?;
    }
    Ok(())
}

/// Returns the placeholders of `count` arguments, beginning with number `first`: `$3, $4, $5`.
pub(crate) fn marks(first: usize, count: usize) -> String {
    let marks: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    marks.join(", ")
}
