//! A single Redis or Valkey server.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

use super::certificates::Certificates;
use super::client::{Client, Reply};
use super::process::Process;
use super::setup::{KIT, Setup};
use super::wait::until;
use super::{clock, ports};

/// How long to wait for a reply to one command.
const REPLY_WITHIN: Duration = Duration::from_secs(5);
/// How many ports are tried if another process takes the chosen one.
const PORT_TRIES: usize = 5;

/// A server that is running, paused or killed. It ends when this value is dropped.
#[derive(Debug)]
pub struct RedisServer {
    setup: Setup,
    port: u16,
    state: Mutex<State>,
    // Last: the process ends before its folder does.
    folder: TempDir,
}

#[derive(Debug)]
enum State {
    Runs(Process),
    Paused(Process),
    Killed,
}

impl Setup {
    /// Starts a server and waits until it replies.
    ///
    /// # Panics
    ///
    /// Panics with the server's log if it does not start.
    pub fn start(&self) -> RedisServer {
        let mut log = String::new();
        for _ in 0..PORT_TRIES {
            let server = RedisServer::prepare(self.clone(), ports::free());
            match server.launch() {
                Ok(()) => return server,
                Err(text) => log = text,
            }
            if !log.contains("already in use") {
                break;
            }
        }
        panic!("{:?} did not start: {log}", self.program);
    }
}

impl RedisServer {
    /// Starts a Redis server with default settings. See [`Setup`] for others.
    pub fn start() -> Self {
        Setup::redis().start()
    }

    /// Starts `count` independent servers.
    pub fn start_many(setup: &Setup, count: usize) -> Vec<Self> {
        (0..count).map(|_| setup.start()).collect()
    }

    fn prepare(setup: Setup, port: u16) -> Self {
        let folder = tempfile::Builder::new().prefix("tidegate-").tempdir().expect("a folder");
        if setup.tls {
            Certificates::write(folder.path());
        }
        if setup.fake_clock {
            clock::set(folder.path(), 0);
        }
        let server = Self { setup, port, state: Mutex::new(State::Killed), folder };
        let text = server.setup.file(port, server.folder.path(), &server.socket());
        // In a file, because servers rewrite their configuration after a failover.
        fs::write(server.file("server.conf"), text).expect("the folder can be written");
        server
    }

    /// Starts the process and waits until it replies. If the process ends instead, the error is its log.
    fn launch(&self) -> Result<(), String> {
        let mut command = Command::new(self.setup.program.path());
        command.arg(self.file("server.conf")).current_dir(self.folder.path());
        if self.setup.sentinel {
            command.arg("--sentinel");
        }
        let log = File::options().create(true).append(true).open(self.file("log")).expect("a log");
        command.stdin(Stdio::null()).stderr(log.try_clone().expect("a handle")).stdout(log);
        let fake_clock = self.setup.fake_clock;
        if fake_clock {
            clock::fake(&mut command, self.folder.path());
        }
        let files = [self.folder.path().to_owned()];
        let leftovers = |id| if fake_clock { clock::leftovers(id) } else { Vec::new() };
        let mut process = Process::start(&mut command, "KILL", &files, leftovers);
        let answers = until("a server answers", || {
            if process.ended().is_some() {
                return Some(false);
            }
            let reply = self.try_command(&["PING"]).ok()?;
            (reply == Reply::Status("PONG".to_owned())).then_some(true)
        });
        if !answers {
            return Err(self.log());
        }
        *self.state.lock() = State::Runs(process);
        Ok(())
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of the server: `redis://127.0.0.1:port`, or `rediss://` with TLS. It includes the
    /// password of the default user, if there is one.
    pub fn url(&self) -> String {
        match &self.setup.password {
            Some(password) => self.url_as("", password),
            None => format!("{}://{}", self.scheme(), self.address()),
        }
    }

    /// Returns the URL with the credentials of a user. An empty name is the default user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), self.address())
    }

    fn scheme(&self) -> &'static str {
        if self.setup.tls { "rediss" } else { "redis" }
    }

    /// Returns the path of the CA certificate that verifies the server, if it has [`tls`](Setup::tls).
    pub fn authority(&self) -> PathBuf {
        Certificates::of(self.folder.path()).authority
    }

    /// Sends a command as a user with all permissions, and returns the reply.
    ///
    /// # Panics
    ///
    /// Panics if the server rejects the command or does not reply within 5 s.
    pub fn command<A: AsRef<[u8]>>(&self, command: &[A]) -> Reply {
        let what = || command.iter().map(|part| part.as_ref().escape_ascii().to_string()).collect::<Vec<_>>();
        match self.try_command(command) {
            Ok(Reply::Error(error)) => panic!("{} refused {:?}: {error}", self.address(), what()),
            Ok(reply) => reply,
            Err(error) => panic!("{} did not answer {:?}: {error}", self.address(), what()),
        }
    }

    /// Sends a command as a user with all permissions. A command that the server rejects is `Ok` with
    /// [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not reply within 5 s.
    pub fn try_command<A: AsRef<[u8]>>(&self, command: &[A]) -> io::Result<Reply> {
        // Not over the TCP port, which may have TLS, and passwords that a test changes.
        let mut client = Client::connect_local(&self.socket(), REPLY_WITHIN)?;
        if !self.setup.sentinel {
            client.ask(&["AUTH", KIT, KIT])?;
        }
        client.ask(command)
    }

    /// Returns a field of `INFO all`, or `None` if there is no such field or the server does not reply.
    pub fn info(&self, field: &str) -> Option<String> {
        let Ok(Reply::Bulk(text)) = self.try_command(&["INFO", "all"]) else { return None };
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut values = text.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        values.next().map(str::to_owned)
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&self) {
        *self.state.lock() = State::Killed;
    }

    /// Kills the server if it is running, starts it again on the same port and in the same folder, and waits
    /// until it replies.
    ///
    /// # Panics
    ///
    /// Panics with the server's log if it does not start.
    pub fn restart(&self) {
        self.kill();
        if let Err(log) = self.launch() {
            panic!("{} did not start again: {log}", self.address());
        }
    }

    /// Pauses the server with SIGSTOP: its connections stay open, but it does not reply.
    ///
    /// # Panics
    ///
    /// Panics if the server was killed.
    pub fn pause(&self) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Killed) {
            State::Runs(process) | State::Paused(process) => {
                process.pause();
                *state = State::Paused(process);
            }
            State::Killed => panic!("{} is killed: nothing to pause", self.address()),
        }
    }

    /// Continues the server after a [`pause`](Self::pause).
    ///
    /// # Panics
    ///
    /// Panics if the server was killed.
    pub fn resume(&self) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Killed) {
            State::Runs(process) | State::Paused(process) => {
                process.resume();
                *state = State::Runs(process);
            }
            State::Killed => panic!("{} is killed: restart it", self.address()),
        }
    }

    /// Returns whether the server is running: neither killed nor paused.
    pub fn runs(&self) -> bool {
        matches!(*self.state.lock(), State::Runs(_))
    }

    /// Returns the process ID of the server, or `None` if it was killed.
    pub fn process_id(&self) -> Option<u32> {
        match &*self.state.lock() {
            State::Runs(process) | State::Paused(process) => Some(process.id()),
            State::Killed => None,
        }
    }

    /// Sets the clock of the server to the true time plus `seconds`. The next command sees it.
    ///
    /// # Panics
    ///
    /// Panics if the server was started without [`fake_clock`](Setup::fake_clock).
    pub fn set_clock_offset(&self, seconds: i64) {
        assert!(self.setup.fake_clock, "the server uses the real clock: start it with `fake_clock()`");
        clock::set(self.folder.path(), seconds);
        // Valkey caches the time: the first command after the jump may still see the old one.
        if self.runs() {
            until("a server's clock has jumped", || clock::shows(self, seconds).then_some(()));
        }
    }

    /// Returns the log of the server, over all its starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Returns the folder with the server's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn socket(&self) -> PathBuf {
        self.file("socket")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns a `redis+sharded://` URL over independent servers, which must have the same setup.
pub fn sharded_url(servers: &[RedisServer]) -> String {
    url_of_many("redis+sharded", servers)
}

/// Returns a URL with several hosts. The password of the first server, if it has one, is used for all.
pub(super) fn url_of_many(scheme: &str, servers: &[RedisServer]) -> String {
    let password = servers.first().and_then(|server| server.setup.password.as_ref());
    let credentials = password.map(|password| format!(":{password}@")).unwrap_or_default();
    let hosts: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    format!("{scheme}://{credentials}{}", hosts.join(","))
}
