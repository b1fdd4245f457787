//! `PgBouncer` in front of a server.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use super::PostgresServer;
use super::account::Account;
use super::program::program;
use crate::redis::process::Process;
use crate::redis::{free_port, until};

/// A pooler with a few connections. It ends when this value is dropped.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    _process: Process,
    // Last: the process ends before its folder does.
    _folder: TempDir,
}

impl Pooler {
    /// Starts a pooler in front of `server` in `transaction` mode, in which a connection may go to another
    /// client after each transaction. Waits until it listens.
    ///
    /// # Panics
    ///
    /// Panics with the pooler's log if it does not start.
    pub fn start(server: &PostgresServer, connections: u32) -> Self {
        Self::in_mode(server, "transaction", connections)
    }

    /// Starts a pooler in front of `server` in one of the modes of `PgBouncer`: `session`, `transaction` or
    /// `statement`. Waits until it listens.
    ///
    /// # Panics
    ///
    /// Panics with the pooler's log if it does not start.
    pub fn in_mode(server: &PostgresServer, mode: &str, connections: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("tidegate-").tempdir().expect("a folder");
        let (account, port) = (Account::find(), free_port());
        let settings = folder.path().join("pgbouncer.ini");
        let log = folder.path().join("log");
        let users = folder.path().join("users");
        // A server has few connections, and one pooler may be used for many databases, one after the other.
        write(account, &users, "\"tidegate\" \"\"\n");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\nlogfile = {}\npool_mode = {mode}\n\
             default_pool_size = {connections}\nserver_idle_timeout = 2\n",
            server.port(),
            users.display(),
            log.display(),
        );
        write(account, &settings, &text);
        account.give(folder.path());
        let mut command = account.command(&program("pgbouncer"));
        command.arg(&settings).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let files = [folder.path().to_owned()];
        let mut process = Process::start(&mut command, "KILL", &files, |_| Vec::new());
        until("a pooler listens", || {
            let logged = || fs::read_to_string(&log).unwrap_or_default();
            assert!(process.ended().is_none(), "pgbouncer did not start: {}", logged());
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Self { port, _process: process, _folder: folder }
    }

    /// Returns the `postgres://` URL of a database through the pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://tidegate@127.0.0.1:{}/{database}", self.port)
    }
}

fn write(account: Account, path: &Path, text: &str) {
    fs::write(path, text).expect("the folder can be written");
    account.give(path);
}
