//! What can go wrong with the catalog.

use thiserror::Error;

use crate::AuditEntry;

/// The result of a call to the catalog.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Nothing was changed, except perhaps where it is [`Uncertain`](Self::Uncertain).
#[derive(Debug, Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{field}: {reason}")]
    Invalid {
        /// Where: `overrides[1].expires_at`.
        field: String,
        /// What is wrong with it, and what is allowed.
        reason: String,
    },
    /// There is no such thing.
    #[error("there is no {kind} {name:?}")]
    NotFound {
        /// What was looked for: `tenant`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// Somebody else was first.
    #[error("{}", precondition(*current))]
    Precondition {
        /// The revision that is there now, or none if nothing is there.
        current: Option<u64>,
    },
    /// The database cannot be reached, does not answer in time, or just changes over to another.
    #[error("the catalog's database is unavailable: {0}; try again in a moment")]
    Unavailable(String),
    /// The database fell silent while a write was committed, and could not be asked since whether it was.
    /// [`Catalog::has_happened`](crate::Catalog::has_happened) says so once it can.
    #[error(
        "it is not known whether the change was made, the catalog's database fell silent: {reason}; look before \
         you repeat it"
    )]
    Uncertain {
        /// The entry of the audit trail that there is if the change was made.
        entry: Box<AuditEntry>,
        /// Why the commit failed.
        reason: String,
    },
    /// The database answers, but not as it should.
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

    /// What must be in every catalog is not there.
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
        let gone = match &error {
            Sql::Database(answer) => answer.code().is_some_and(|code| is_gone(&code)),
            Sql::Io(_) | Sql::Tls(_) | Sql::Protocol(_) | Sql::WorkerCrashed | Sql::PoolTimedOut => true,
            _ => false,
        };
        if gone { Self::Unavailable(error.to_string()) } else { Self::Other(error.to_string()) }
    }
}

/// What `PostgreSQL` says of a table that is not there.
const NO_TABLE: &str = "42P01";

/// Whether a code says that the database is not there for now rather than that the question was wrong.
/// `SQLite`'s are small numbers, of which the lowest byte counts; `PostgreSQL`'s have five characters.
fn is_gone(code: &str) -> bool {
    if let (1..=4, Ok(number)) = (code.len(), code.parse::<u32>()) {
        // Busy, locked, read-only, I/O error, full, cannot open.
        return matches!(number & 0xff, 5 | 6 | 8 | 10 | 13 | 14);
    }
    // Connection trouble, no such database, resources, shutting down, rolled back by the server, disk or memory trouble;
    // read-only, as a standby is; and a transaction that was silent for too long.
    ["08", "3D", "53", "57", "40", "58"].iter().any(|class| code.starts_with(class))
        || ["25006", "25P03"].contains(&code)
}
