//! Statements and rows, with the same interface for both databases.
//!
//! Every statement is written once, with `$1` for arguments. Columns are text or integers: flags are 0 or 1,
//! times are microseconds since the epoch.

use std::borrow::Cow;

use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};

use super::statement::{self, Commit, StatementConnection};
use crate::catalog::{DEADLINE, within};
use crate::error::{Error, Result};
use crate::time;

/// A connection to either database.
pub(crate) enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    Statement(StatementConnection),
}

/// An argument of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Text(Option<String>),
    Number(Option<i64>),
}

/// A row of a result.
pub(crate) enum Row<'a> {
    Sqlite(&'a SqliteRow),
    Postgres(&'a PgRow),
}

/// Builds a query. Names and values are always arguments; the SQL text consists of constants of this crate.
/// On `PostgreSQL` statements are not prepared for reuse (`persistent` is false), because poolers do not
/// support that.
macro_rules! query {
    ($sql:expr, $args:expr, $persistent:expr) => {{
        let mut query = sqlx::query(AssertSqlSafe($sql)).persistent($persistent);
        for arg in $args {
            query = match arg {
                Arg::Text(text) => query.bind(text.clone()),
                Arg::Number(number) => query.bind(*number),
            };
        }
        query
    }};
}

/// Applies [`DEADLINE`] to one step of a call. A result may be long, but each row must arrive in time.
async fn with_deadline<T>(step: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T> {
    within(DEADLINE, async { Ok(step.await?) }).await
}

impl Connection {
    /// Executes a statement that writes, at the latest when the transaction is committed.
    pub(crate) async fn execute(&mut self, sql: impl Into<Cow<'static, str>>, args: &[Arg]) -> Result<()> {
        let sql = sql.into();
        match self {
            Self::Sqlite(inner) => with_deadline(query!(sql, args, true).execute(inner)).await.map(drop),
            Self::Postgres(inner) => with_deadline(query!(sql, args, false).execute(inner)).await.map(drop),
            Self::Statement(connection) => connection.collect(&sql, args),
        }
    }

    /// Returns all rows of a query. It does not see what this transaction has written.
    pub(crate) async fn rows<T>(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[Arg],
        read: impl Fn(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let sql = sql.into();
        let mut found = Vec::new();
        match self {
            Self::Sqlite(inner) => {
                let mut rows = query!(sql, args, true).fetch(inner);
                while let Some(row) = with_deadline(rows.try_next()).await? {
                    found.push(read(&Row::Sqlite(&row))?);
                }
            }
            Self::Postgres(inner) => {
                let mut rows = query!(sql, args, false).fetch(inner);
                while let Some(row) = with_deadline(rows.try_next()).await? {
                    found.push(read(&Row::Postgres(&row))?);
                }
            }
            Self::Statement(connection) => {
                let sql = statement::with_args(&sql, args)?;
                let mut rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch(&mut connection.inner);
                while let Some(row) = with_deadline(rows.try_next()).await? {
                    found.push(read(&Row::Postgres(&row))?);
                }
            }
        }
        Ok(found)
    }

    /// Returns the first row of a query, if there is one.
    pub(crate) async fn row<T>(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[Arg],
        read: impl Fn(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Option<T>> {
        Ok(self.rows(sql, args, read).await?.into_iter().next())
    }

    /// Executes statements that write and have no arguments, several at once.
    pub(crate) async fn script(&mut self, sql: &'static str) -> Result<()> {
        match self {
            Self::Sqlite(inner) => sqlx::raw_sql(sql).execute(inner).await.map(drop)?,
            Self::Postgres(inner) => sqlx::raw_sql(sql).execute(inner).await.map(drop)?,
            Self::Statement(connection) => connection.collect(sql, &[])?,
        }
        Ok(())
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&mut self, sql: &'static str) -> Result<()> {
        match self {
            Self::Sqlite(inner) => sqlx::raw_sql(sql).execute(inner).await.map(drop)?,
            Self::Postgres(inner) => sqlx::raw_sql(sql).execute(inner).await.map(drop)?,
            Self::Statement(connection) => connection.clear(),
        }
        Ok(())
    }

    /// Commits the transaction.
    pub(crate) async fn commit(&mut self) -> Result<Commit> {
        match self {
            Self::Sqlite(inner) => sqlx::raw_sql("COMMIT").execute(inner).await.map(drop)?,
            Self::Postgres(inner) => sqlx::raw_sql("COMMIT").execute(inner).await.map(drop)?,
            Self::Statement(connection) => {
                let Some(message) = connection.take_message() else { return Ok(Commit::Done) };
                match sqlx::raw_sql(AssertSqlSafe(message)).execute(&mut connection.inner).await {
                    Err(error) if statement::is_superseded(&error) => return Ok(Commit::Superseded),
                    done => done.map(drop)?,
                }
            }
        }
        Ok(Commit::Done)
    }

    /// Rolls the transaction back.
    pub(crate) async fn roll_back(&mut self) -> Result<()> {
        match self {
            Self::Sqlite(inner) => sqlx::raw_sql("ROLLBACK").execute(inner).await.map(drop)?,
            Self::Postgres(inner) => sqlx::raw_sql("ROLLBACK").execute(inner).await.map(drop)?,
            Self::Statement(connection) => connection.clear(),
        }
        Ok(())
    }

    /// Checks that the database still replies.
    pub(crate) async fn ping(&mut self) -> Result<()> {
        match self {
            Self::Sqlite(inner) => inner.ping().await?,
            Self::Postgres(inner) => inner.ping().await?,
            Self::Statement(connection) => connection.inner.ping().await?,
        }
        Ok(())
    }

    pub(crate) fn is_postgres(&self) -> bool {
        !matches!(self, Self::Sqlite(_))
    }

    /// Returns whether a transaction is a single message, so that nothing can be locked before it is sent.
    pub(crate) fn is_per_statement(&self) -> bool {
        matches!(self, Self::Statement(_))
    }
}

impl Row<'_> {
    pub(crate) fn maybe_text(&self, column: usize) -> Result<Option<String>> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(column)?,
            Self::Postgres(row) => row.try_get(column)?,
        })
    }

    pub(crate) fn maybe_integer(&self, column: usize) -> Result<Option<i64>> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(column)?,
            Self::Postgres(row) => row.try_get(column)?,
        })
    }

    pub(crate) fn text(&self, column: usize) -> Result<String> {
        self.maybe_text(column)?.ok_or_else(|| empty(column))
    }

    pub(crate) fn maybe_number(&self, column: usize) -> Result<Option<u64>> {
        let found = self.maybe_integer(column)?;
        found
            .map(|number| u64::try_from(number).map_err(|_| unexpected(column, &number.to_string())))
            .transpose()
    }

    pub(crate) fn number(&self, column: usize) -> Result<u64> {
        self.maybe_number(column)?.ok_or_else(|| empty(column))
    }

    pub(crate) fn flag(&self, column: usize) -> Result<bool> {
        Ok(self.number(column)? != 0)
    }

    pub(crate) fn maybe_time(&self, column: usize) -> Result<Option<Timestamp>> {
        Ok(self.maybe_integer(column)?.map(time::of))
    }

    pub(crate) fn time(&self, column: usize) -> Result<Timestamp> {
        self.maybe_time(column)?.ok_or_else(|| empty(column))
    }
}

fn empty(column: usize) -> Error {
    Error::Other(format!("column {column} of a row is empty"))
}

/// Returns the error for a value that no version of this program has stored.
pub(crate) fn unexpected(column: usize, found: &str) -> Error {
    Error::Other(format!("column {column} of a row has the unexpected value {found:?}"))
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<&String> for Arg {
    fn from(text: &String) -> Self {
        Self::Text(Some(text.clone()))
    }
}

impl From<Option<&str>> for Arg {
    fn from(text: Option<&str>) -> Self {
        Self::Text(text.map(str::to_owned))
    }
}

impl From<i64> for Arg {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<bool> for Arg {
    fn from(flag: bool) -> Self {
        Self::Number(Some(flag.into()))
    }
}

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        // Stored numbers are far below the maximum. A larger one from a client compares as larger than all
        // of them.
        Self::Number(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<Option<u64>> for Arg {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Number(None), Self::from)
    }
}

impl From<Timestamp> for Arg {
    fn from(at: Timestamp) -> Self {
        Self::Number(Some(at.as_microsecond()))
    }
}

impl From<Option<Timestamp>> for Arg {
    fn from(at: Option<Timestamp>) -> Self {
        Self::Number(at.map(Timestamp::as_microsecond))
    }
}
