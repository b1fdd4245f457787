//! `SQLite`: a file that only this node uses.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqliteConnection};
use tokio::time::Instant;

use crate::catalog::DEADLINE;
use crate::error::{Error, Result};

/// How long to wait before opening a busy file again.
const PAUSE: Duration = Duration::from_millis(20);

/// How to open the file.
pub(crate) struct Options(SqliteConnectOptions);

impl Options {
    pub(crate) fn new(path: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            // Readers continue during a write.
            .journal_mode(SqliteJournalMode::Wal)
            // A change that was acknowledged must survive a power failure: it may revoke a token or sell a
            // limit. This costs a flush per change, and changes are rare.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(DEADLINE)
            // Another thread sends the rows: with a larger buffer it waits for us less often.
            .row_buffer_size(1_024)
            .disable_statement_logging();
        Self(options)
    }

    /// Creates the file if there is none. Only its owner may read it, because it holds hashes of tokens.
    pub(crate) fn make(&self) -> Result<()> {
        let path = self.0.get_filename();
        match File::options().write(true).create(true).truncate(false).mode(0o600).open(path) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::Unavailable(format!("cannot open {}: {error}", path.display()))),
        }
    }

    pub(crate) async fn connect(&self) -> Result<SqliteConnection> {
        let began = Instant::now();
        let mut opened = self.0.connect().await;
        // If several connections open a new file and enable its log at once, some fail without waiting.
        while opened.as_ref().is_err_and(is_busy) && began.elapsed() < DEADLINE {
            tokio::time::sleep(PAUSE).await;
            opened = self.0.connect().await;
        }
        let path = self.0.get_filename().display();
        opened.map_err(|error| Error::Unavailable(format!("cannot open {path}: {error}")))
    }
}

/// Returns whether another connection has locked the file. The lowest byte of a code is its category.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}
