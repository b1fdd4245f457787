//! A connection through a pooler in statement mode, such as `PgBouncer` with `pool_mode = statement`.
//!
//! Such a pooler may send each message to another server connection, and refuses transactions that take more
//! than one message. So reads are messages of their own, writes are collected and sent as one message, which
//! the server runs as one transaction, and arguments are written into the text, because a prepared statement
//! would take two messages. Nothing is locked while a write is prepared: its first statement has to check that
//! what was read before still holds (see [`Commit::Superseded`]).

use std::fmt::Write as _;

use sqlx::PgConnection;

use super::connection::Arg;
use crate::error::{Error, Result};

/// Part of the error message of `PgBouncer` if a transaction takes more than one message.
const REFUSAL: &str = "statement pooling mode";
/// Precedes the collected statements. `UNLISTEN` is for connections on which another client has listened: a
/// notification would arrive in the middle of the reply. The timeout is that of all writers.
const PREAMBLE: &str = "UNLISTEN *; SET LOCAL lock_timeout = '5s'";

/// A connection through a pooler in statement mode.
pub(crate) struct StatementConnection {
    pub(crate) inner: PgConnection,
    /// The writes that the next commit sends.
    pending: Vec<String>,
}

/// How a commit ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Commit {
    Done,
    /// Nothing was written, because another writer committed first or the reply was disturbed. The write must be
    /// prepared again.
    Superseded,
}

impl StatementConnection {
    pub(crate) fn new(inner: PgConnection) -> Self {
        Self { inner, pending: Vec::new() }
    }

    /// Collects a statement, or several without arguments.
    pub(crate) fn collect(&mut self, sql: &str, args: &[Arg]) -> Result<()> {
        self.pending.push(with_args(sql, args)?);
        Ok(())
    }

    /// Forgets what was collected.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Takes what was collected, as one message; `None` if there is nothing.
    pub(crate) fn take_message(&mut self) -> Option<String> {
        if self.pending.is_empty() {
            return None;
        }
        let statements = std::mem::take(&mut self.pending);
        Some(format!("{PREAMBLE}; {}", statements.join("; ")))
    }
}

/// Returns whether an error is the refusal of a transaction by a pooler in statement mode.
pub(crate) fn is_refusal(error: &sqlx::Error) -> bool {
    error.to_string().contains(REFUSAL)
}

/// Returns whether an error means that another writer committed first: the check on the version row, or on the steps
/// of the migrations, has failed.
pub(crate) fn is_superseded(error: &sqlx::Error) -> bool {
    let Some(answer) = error.as_database_error() else { return false };
    let failed = (answer.code(), answer.table());
    matches!(
        (failed.0.as_deref(), failed.1),
        (Some("23514"), Some("catalog")) | (Some("23505"), Some("catalog_steps"))
    )
}

/// Writes arguments into the text of a statement. The statements of this crate have `$` only before the
/// number of an argument.
pub(crate) fn with_args(sql: &str, args: &[Arg]) -> Result<String> {
    let mut pieces = sql.split('$');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(piece.len());
        let number = piece[..end].parse::<usize>().ok();
        let arg = number.and_then(|number| args.get(number.checked_sub(1)?));
        let arg =
            arg.ok_or_else(|| Error::Other(format!("a statement has no argument ${}", &piece[..end])))?;
        push_literal(&mut text, arg)?;
        text += &piece[end..];
    }
    Ok(text)
}

fn push_literal(text: &mut String, arg: &Arg) -> Result<()> {
    match arg {
        Arg::Text(None) | Arg::Number(None) => *text += "NULL",
        // In parentheses, because two minus signs begin a comment.
        Arg::Number(Some(number)) => write!(text, "({number})").expect("a string takes all"),
        Arg::Text(Some(value)) => {
            if value.contains('\0') {
                return Err(Error::invalid("text", "must not contain a zero byte"));
            }
            // With E, both signs are escaped whatever the server's settings are. The client's encoding is
            // UTF-8, in which no other character contains their bytes.
            *text += " E'";
            *text += &value.replace('\\', "\\\\").replace('\'', "''");
            text.push('\'');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_written_so_that_they_cannot_end_early() {
        let args: Vec<Arg> = vec![r"O'Neil \' -- ".into(), (-5_i64).into(), None::<&str>.into()];
        let text = with_args("VALUES ($1, 1-$2, $3, $1)", &args).expect("valid");
        assert_eq!(text, r"VALUES ( E'O''Neil \\'' -- ', 1-(-5), NULL,  E'O''Neil \\'' -- ')");
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        assert!(with_args("SELECT $1", &["a\0b".into()]).is_err());
        assert!(with_args("SELECT $2", &["a".into()]).is_err());
        assert!(with_args("SELECT $$", &["a".into()]).is_err());
    }

    #[test]
    fn ten_is_not_one_and_a_zero() {
        let args: Vec<Arg> = (1..=11_i64).map(Arg::from).collect();
        assert_eq!(with_args("$1 $10 $11", &args).expect("valid"), "(1) (10) (11)");
    }
}
