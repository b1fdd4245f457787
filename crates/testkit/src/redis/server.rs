//! One server.

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

/// How long the kit waits for one reply.
const REPLY_WITHIN: Duration = Duration::from_secs(5);
/// How often a server is started anew because its port was taken in the meantime.
const PORT_TRIES: usize = 5;

/// A server, running or killed, that is gone with its value.
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
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not, with what it has logged.
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
    /// A plain Redis; see [`Setup`] for others.
    pub fn start() -> Self {
        Setup::redis().start()
    }

    /// Independent servers.
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
        // From a file, because servers write into it what failovers have changed.
        fs::write(server.file("server.conf"), text).expect("the folder can be written");
        server
    }

    /// Starts the process and waits until it answers, or gives what it has logged if it ends.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:port`, or `rediss://`, with the password of the default user if there is one.
    pub fn url(&self) -> String {
        match &self.setup.password {
            Some(password) => self.url_as("", password),
            None => format!("{}://{}", self.scheme(), self.address()),
        }
    }

    /// The URL for a user; without a name for the default one.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), self.address())
    }

    fn scheme(&self) -> &'static str {
        if self.setup.tls { "rediss" } else { "redis" }
    }

    /// The certificate of the authority that has signed the server's, if it has [`tls`](Setup::tls).
    pub fn authority(&self) -> PathBuf {
        Certificates::of(self.folder.path()).authority
    }

    /// Gives a command by a user who may do all.
    ///
    /// # Panics
    ///
    /// If the server refuses it or does not answer.
    pub fn command<A: AsRef<[u8]>>(&self, command: &[A]) -> Reply {
        let what = || command.iter().map(|part| part.as_ref().escape_ascii().to_string()).collect::<Vec<_>>();
        match self.try_command(command) {
            Ok(Reply::Error(error)) => panic!("{} refused {:?}: {error}", self.address(), what()),
            Ok(reply) => reply,
            Err(error) => panic!("{} did not answer {:?}: {error}", self.address(), what()),
        }
    }

    /// The same, where a refusal is a [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// If the server does not answer within 5 s.
    pub fn try_command<A: AsRef<[u8]>>(&self, command: &[A]) -> io::Result<Reply> {
        // Not over its port: that may have TLS, and passwords that a test changes.
        let mut client = Client::connect_local(&self.socket(), REPLY_WITHIN)?;
        if !self.setup.sentinel {
            client.ask(&["AUTH", KIT, KIT])?;
        }
        client.ask(command)
    }

    /// A field of `INFO all`, if the server has it and answers.
    pub fn info(&self, field: &str) -> Option<String> {
        let Ok(Reply::Bulk(text)) = self.try_command(&["INFO", "all"]) else { return None };
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut values = text.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        values.next().map(str::to_owned)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) {
        *self.state.lock() = State::Killed;
    }

    /// Starts it again on the same port, in the same folder, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not, with what it has logged.
    pub fn restart(&self) {
        self.kill();
        if let Err(log) = self.launch() {
            panic!("{} did not start again: {log}", self.address());
        }
    }

    /// Stops it where it is with SIGSTOP: its connections stay, nothing is answered.
    ///
    /// # Panics
    ///
    /// If it does not run.
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

    /// Lets it go on after a [`pause`](Self::pause).
    ///
    /// # Panics
    ///
    /// If it was killed.
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

    /// Whether it is neither killed nor paused.
    pub fn runs(&self) -> bool {
        matches!(*self.state.lock(), State::Runs(_))
    }

    /// The number of its process, if it has one.
    pub fn process_id(&self) -> Option<u32> {
        match &*self.state.lock() {
            State::Runs(process) | State::Paused(process) => Some(process.id()),
            State::Killed => None,
        }
    }

    /// Makes its clock jump to that far from the true time, for the next command already.
    ///
    /// # Panics
    ///
    /// Without [`fake_clock`](Setup::fake_clock).
    pub fn set_clock_offset(&self, seconds: i64) {
        assert!(self.setup.fake_clock, "the server has a true clock: start it with `fake_clock()`");
        clock::set(self.folder.path(), seconds);
        // Valkey keeps the time for a while: a first command after the jump may still see the old one.
        if self.runs() {
            until("a server's clock has jumped", || clock::shows(self, seconds).then_some(()));
        }
    }

    /// What it has logged, over all its starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Its folder.
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

/// `redis+sharded://` over independent servers that were set up alike.
pub fn sharded_url(servers: &[RedisServer]) -> String {
    url_of_many("redis+sharded", servers)
}

/// A URL with several hosts; the password of the first, if it has one, holds for all.
pub(super) fn url_of_many(scheme: &str, servers: &[RedisServer]) -> String {
    let password = servers.first().and_then(|server| server.setup.password.as_ref());
    let credentials = password.map(|password| format!(":{password}@")).unwrap_or_default();
    let hosts: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    format!("{scheme}://{credentials}{}", hosts.join(","))
}
