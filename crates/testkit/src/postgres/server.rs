//! A single `PostgreSQL` server.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;
use rustix::process::Signal;
use tempfile::TempDir;

use super::account::Account;
use super::family;
use super::program::program;
use super::setup::Setup;
use crate::redis::certificates::Certificates;
use crate::redis::process::Process;
use crate::redis::{free_port, until};

/// The superuser of the database.
const USER: &str = "tidegate";
/// How many ports are tried if another process takes the chosen one.
const PORT_TRIES: usize = 5;

/// A server that is running or stopped. It ends when this value is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    setup: Setup,
    account: Account,
    port: u16,
    state: Mutex<Option<Process>>,
    databases: AtomicU32,
    // Last: the process ends before its folder does.
    folder: TempDir,
}

impl Setup {
    /// Creates a database cluster, starts its server and waits until it replies.
    ///
    /// # Panics
    ///
    /// Panics with the server's log if it does not start.
    pub fn start(&self) -> PostgresServer {
        let server = PostgresServer::prepare(self.clone());
        let mut init = server.account.command(&program("initdb"));
        init.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", USER]);
        run(init.arg("--pgdata").arg(server.data()));
        server.first_launch()
    }
}

impl PostgresServer {
    /// Starts a server with default settings. See [`Setup`] for others.
    pub fn start() -> Self {
        Setup::new().start()
    }

    fn prepare(setup: Setup) -> Self {
        let folder = tempfile::Builder::new().prefix("tidegate-").tempdir().expect("a folder");
        let account = Account::find();
        account.give(folder.path());
        Self { setup, account, port: 0, state: Mutex::new(None), databases: AtomicU32::new(0), folder }
    }

    fn first_launch(mut self) -> Self {
        let mut log = String::new();
        for _ in 0..PORT_TRIES {
            self.port = free_port();
            self.configure();
            match self.launch() {
                Ok(()) => {
                    self.set_password();
                    return self;
                }
                Err(text) => log = text,
            }
            if !log.contains("already in use") {
                break;
            }
        }
        panic!("postgres did not start: {log}");
    }

    fn configure(&self) {
        let data = self.data();
        let mut files = vec![
            ("postgresql.conf", self.setup.file(self.port, self.folder.path())),
            ("pg_hba.conf", self.setup.access()),
        ];
        if self.setup.tls {
            Certificates::write(self.folder.path());
            let made = Certificates::of(self.folder.path());
            let read = |path: &Path| fs::read_to_string(path).expect("it was just made");
            files.extend([("server.pem", read(&made.certificate)), ("server.key", read(&made.key))]);
        }
        for (name, text) in files {
            let path = data.join(name);
            // Removed first, because writing would keep the permissions and the owner of an existing file,
            // and the server rejects a key that others can read.
            let _ = fs::remove_file(&path);
            fs::write(&path, text).expect("the folder can be written");
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(&path, private).expect("the file was just written");
            self.account.give(&path);
        }
    }

    fn set_password(&self) {
        let standby = self.data().join("standby.signal").exists();
        if let Some(password) = self.setup.password.as_ref().filter(|_| !standby) {
            self.query("postgres", &format!("ALTER USER {USER} PASSWORD '{password}'"));
        }
    }

    /// Starts the process and waits until it replies. If the process ends instead, the error is its log.
    fn launch(&self) -> Result<(), String> {
        let mut command = self.account.command(&program("postgres"));
        command.arg("-D").arg(self.data()).current_dir(self.folder.path());
        let log = File::options().create(true).append(true).open(self.log_file()).expect("a log");
        command.stdin(Stdio::null()).stderr(log.try_clone().expect("a handle")).stdout(log);
        let files = [self.folder.path().to_owned()];
        // On QUIT the server ends at once, as on KILL, but also cleans up its shared memory.
        let mut process = Process::start(&mut command, "QUIT KILL", &files, |_| Vec::new());
        let answers = until("a server answers", || {
            if process.ended().is_some() {
                return Some(false);
            }
            self.try_query("postgres", "SELECT 1").ok().map(|_| true)
        });
        if !answers {
            return Err(self.log());
        }
        *self.state.lock() = Some(process);
        Ok(())
    }

    /// Starts a standby server that replicates this one, beginning with a copy of its data.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    #[must_use]
    pub fn start_standby(&self) -> Self {
        let standby = Self::prepare(self.setup.clone());
        let mut copy = self.account.command(&program("pg_basebackup"));
        copy.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        copy.args(["--host=127.0.0.1", "--username", USER, &format!("--port={}", self.port)]);
        run(copy.arg("--pgdata").arg(standby.data()));
        standby.first_launch()
    }

    /// Promotes this standby server to primary, and waits until it accepts writes.
    ///
    /// # Panics
    ///
    /// Panics if it is not a standby server.
    pub fn promote(&self) {
        assert_eq!(self.query("postgres", "SELECT pg_promote(true, 30)"), "t", "{}", self.log());
    }

    /// Waits until a standby server has everything that this server has written so far.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_for_standby(&self, standby: &Self) {
        let position = self.query("postgres", "SELECT pg_current_wal_lsn()");
        let question = format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{position}', false)");
        until("a standby has caught up", || (standby.query("postgres", &question) == "t").then_some(()));
    }

    /// Creates an empty database and returns its name.
    pub fn create_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Relaxed));
        self.query("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Returns the `postgres://` URL of a database over TCP, with the credentials of the superuser.
    pub fn url(&self, database: &str) -> String {
        multi_host_url(&[self], database)
    }

    /// Returns the port that the server listens on at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder of the server's Unix socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the CA certificate that verifies the server, if it has [`tls`](Setup::tls).
    pub fn authority(&self) -> PathBuf {
        Certificates::of(self.folder.path()).authority
    }

    /// Runs SQL as the superuser. Returns the rows as lines, with their columns separated by `|`.
    ///
    /// # Panics
    ///
    /// Panics if the server rejects the SQL or does not reply.
    pub fn query(&self, database: &str, sql: &str) -> String {
        self.try_query(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL as the superuser. Returns the rows as lines, with their columns separated by `|`.
    ///
    /// # Errors
    ///
    /// Returns the error output of `psql` if the server rejects the SQL or does not reply.
    ///
    /// # Panics
    ///
    /// Panics if `psql` is not installed.
    pub fn try_query(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut command = Command::new(program("psql"));
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        command.arg("--host").arg(self.folder.path()).args(["--username", USER]);
        command.args([&format!("--port={}", self.port), "--dbname", database, "--command", sql]);
        command.env("PGCONNECT_TIMEOUT", "5").stdin(Stdio::null());
        let output = command.output().expect("psql starts");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    /// Kills all processes of the server with SIGKILL, as a machine that fails would.
    pub fn kill(&self) {
        let Some(process) = self.state.lock().take() else { return };
        // While the main process is paused, it starts no more children and does not react to their end.
        process.pause();
        family::signal(process.id(), Signal::KILL);
        drop(process);
    }

    /// Stops the server as an administrator would: clients get an error and are disconnected.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn stop(&self) {
        if let Some(mut process) = self.state.lock().take() {
            process.signal(Signal::INT);
            until("a server has stopped", || process.ended().map(drop));
        }
    }

    /// Stops the server if it is running, starts it again on the same port with the same data, and waits
    /// until it replies.
    ///
    /// # Panics
    ///
    /// Panics with the server's log if it does not start.
    pub fn restart(&self) {
        self.stop();
        let launched = until("a server has started again", || match self.launch() {
            // Processes that were killed take a moment to release it.
            Err(log) if log.lines().rev().take(2).any(|line| line.contains("shared memory block")) => None,
            launched => Some(launched),
        });
        if let Err(log) = launched {
            panic!("postgres did not start again: {log}");
        }
    }

    /// Pauses all processes of the server with SIGSTOP: connections stay open, but it does not reply.
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    pub fn pause(&self) {
        let state = self.state.lock();
        let process = state.as_ref().expect("it runs");
        process.pause();
        family::signal(process.id(), Signal::STOP);
    }

    /// Continues the server after a [`pause`](Self::pause).
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    pub fn resume(&self) {
        let state = self.state.lock();
        let process = state.as_ref().expect("it runs");
        family::signal(process.id(), Signal::CONT);
        process.resume();
    }

    /// Returns the process ID of the server's main process, or `None` if the server is not running.
    pub fn process_id(&self) -> Option<u32> {
        self.state.lock().as_ref().map(Process::id)
    }

    /// Returns the log of the server, over all its starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let Some(mut process) = self.state.lock().take() else {
            family::remove_memory(&self.data());
            return;
        };
        // The processes may be paused.
        family::signal(process.id(), Signal::CONT);
        process.resume();
        process.signal(Signal::QUIT);
        until("a server has ended", || process.ended().map(drop));
    }
}

/// Returns a `postgres://` URL with several hosts. The password of the first server is used for all.
///
/// # Panics
///
/// Panics if `servers` is empty.
pub fn multi_host_url(servers: &[&PostgresServer], database: &str) -> String {
    let first = servers.first().expect("there is a server");
    let password = first.setup.password.as_ref().map(|password| format!(":{password}")).unwrap_or_default();
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!("postgres://{USER}{password}@{}/{database}", hosts.join(","))
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
