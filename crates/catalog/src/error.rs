//! The errors of the catalog.

use thiserror::Error;

use crate::AuditEntry;

/// The result of a call to the catalog.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a call to the catalog. Nothing was changed, except perhaps if the error is
/// [`Uncertain`](Self::Uncertain).
#[derive(Debug, Error)]
pub enum Error {
    /// A field of the request is invalid.
    #[error("{field}: {reason}")]
    Invalid {
        /// The path of the field, such as `overrides[1].expires_at`.
        field: String,
        /// What is wrong with the value, and what is allowed.
        reason: String,
    },
    /// The object does not exist.
    #[error("there is no {kind} {name:?}")]
    NotFound {
        /// The kind of the object, such as `tenant`.
        kind: &'static str,
        /// The name of the object.
        name: String,
    },
    /// The precondition of a write does not hold, because the object was changed in the meantime.
    #[error("{}", precondition(*current))]
    Precondition {
        /// The current revision of the object, or `None` if it does not exist.
        current: Option<u64>,
    },
    /// The database cannot be reached, does not reply in time, or is failing over to another host.
    #[error("the catalog's database is unavailable: {0}; try again in a moment")]
    Unavailable(String),
    /// A reply was mixed with a notification for another client, because a pooler reused a connection on which
    /// another client had listened. The call can be repeated on another connection.
    #[error("the catalog's database is unavailable: {0}; try again in a moment")]
    Disturbed(String),
    /// The connection broke during a commit, and the database could not be reached since to find out whether the
    /// change was made. Call [`Catalog::has_happened`](crate::Catalog::has_happened) later.
    #[error(
        "it is not known whether the change was made, because the catalog's database did not respond: {reason}; look before \
         you repeat it"
    )]
    Uncertain {
        /// The audit entry that exists if the change was made.
        entry: Box<AuditEntry>,
        /// Why the commit failed.
        reason: String,
    },
    /// The database replied with an unexpected error or value.
    #[error("the catalog's database failed: {0}")]
    Other(String),
}

fn precondition(current: Option<u64>) -> String {
    match current {
        Some(revision) => format!("it is at revision {revision} now: read it again, then repeat the change"),
        None => "it does not exist now: read again, then repeat the change".to_owned(),
    }
}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }

    /// Returns the error for a catalog without its version row, which every catalog must have.
    pub(crate) fn emptied() -> Self {
        Self::Unavailable("it was emptied, its version is missing; restore it from a backup".to_owned())
    }

    pub(crate) fn not_found(kind: &'static str, name: &str) -> Self {
        Self::NotFound { kind, name: name.to_owned() }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as Sql;
        if let Sql::Database(answer) = &error
            && answer.code().is_some_and(|code| code == NO_TABLE)
        {
            return Self::Unavailable(format!(
                "it was emptied, its tables are missing ({answer}); restore them from a backup, or restart a \
                 node to begin anew"
            ));
        }
        if let Sql::Protocol(_) = &error {
            return Self::Disturbed(error.to_string());
        }
        let gone = match &error {
            Sql::Database(answer) => answer.code().is_some_and(|code| is_gone(&code)),
            Sql::Io(_) | Sql::Tls(_) | Sql::WorkerCrashed | Sql::PoolTimedOut => true,
            _ => false,
        };
        if gone { Self::Unavailable(error.to_string()) } else { Self::Other(error.to_string()) }
    }
}

/// The error code of `PostgreSQL` for a table that does not exist.
const NO_TABLE: &str = "42P01";

/// Returns whether an error code means that the database is temporarily unavailable, as opposed to a wrong statement.
/// The codes of `SQLite` are small numbers whose lowest byte is the category; those of `PostgreSQL` have five
/// characters.
fn is_gone(code: &str) -> bool {
    if let (1..=4, Ok(number)) = (code.len(), code.parse::<u32>()) {
        // Busy, locked, read-only, I/O error, full, cannot open.
        return matches!(number & 0xff, 5 | 6 | 8 | 10 | 13 | 14);
    }
    // Connection errors, missing database, insufficient resources, shutdown, rollback by the server, disk or memory
    // errors; read-only, as on a standby; and a transaction that was idle for too long.
    ["08", "3D", "53", "57", "40", "58"].iter().any(|class| code.starts_with(class))
        || ["25006", "25P03"].contains(&code)
}
