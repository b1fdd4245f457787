//! `SQLite`: a file of this node's own.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqliteConnection};

use crate::catalog::DEADLINE;
use crate::error::{Error, Result};

/// How to open the file.
pub(crate) struct Options(SqliteConnectOptions);

impl Options {
    pub(crate) fn new(path: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            // Readers go on while somebody writes.
            .journal_mode(SqliteJournalMode::Wal)
            // A change that was acknowledged is there after a power cut: tokens are revoked by it, and
            // limits sold. It costs a flush per change, and changes are rare.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(DEADLINE)
            .disable_statement_logging();
        Self(options)
    }

    pub(crate) async fn connect(&self) -> Result<SqliteConnection> {
        let path = self.0.get_filename().display();
        self.0.connect().await.map_err(|error| Error::Unavailable(format!("cannot open {path}: {error}")))
    }
}
