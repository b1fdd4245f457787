//! Many rows by few statements: a copy of a large catalog is written whole.

use super::connection::{Arg, Connection};
use crate::error::Result;

/// How many rows a statement has. Databases allow some ten thousand arguments, and no row of ours has 20.
const BATCH: usize = 250;

/// Inserts rows `into` a table and its columns; what to do with those that are there already stands behind.
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

/// Deletes the rows of a table that have one of these names in a column.
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

/// `$3, $4, $5`
pub(crate) fn marks(first: usize, count: usize) -> String {
    let marks: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    marks.join(", ")
}
