//! A server process that is bound to its core.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use quanta::Instant;
use tempfile::TempDir;

use super::SERVER_CORE;
use super::launcher::Launcher;
use crate::error::{Error, ensure};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server on the server core. Dropping it kills the process.
pub(crate) struct Child {
    pub(crate) name: &'static str,
    process: std::process::Child,
    log: PathBuf,
    /// The folder with all files that the server reads and writes.
    pub(crate) folder: TempDir,
    pub(crate) started: Instant,
}

/// Creates the folder of a server that is about to be started.
pub(crate) fn new_folder() -> Result<TempDir, Error> {
    let folder = tempfile::Builder::new().prefix("tidegate-bench-").tempdir();
    folder.map_err(Error::io(&std::env::temp_dir()))
}

/// Returns an address with a port that is free now.
pub(crate) fn free_addr() -> Result<SocketAddr, Error> {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let found = TcpListener::bind(addr).and_then(|listener| listener.local_addr());
    found.map_err(|error| Error::Wrong(format!("there is no free port on {}: {error}", addr.ip())))
}

impl Child {
    pub(crate) fn start(
        launcher: &Launcher,
        name: &'static str,
        command: &[&OsStr],
        environment: &[(&str, &str)],
        folder: TempDir,
    ) -> Result<Self, Error> {
        let log = folder.path().join("output.log");
        let output = File::create(&log).map_err(Error::io(&log))?;
        let errors = output.try_clone().map_err(Error::io(&log))?;
        let started = Instant::now();
        // The kernel kills it if this process dies. Each of the two programs executes the next one, so the process ID
        // of the child is that of the server.
        let process = Command::new(&launcher.setpriv)
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&launcher.taskset)
            .args(["--cpu-list", &SERVER_CORE.to_string()])
            .args(command)
            .envs(environment.iter().copied())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(Error::io(&launcher.setpriv))?;
        Ok(Self { name, process, log, folder, started })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Calls `ready` repeatedly until it returns a value. Fails if the server ends before that.
    pub(crate) fn wait<T>(&mut self, ready: impl Fn() -> Option<T>) -> Result<T, Error> {
        loop {
            if let Some(found) = ready() {
                return Ok(found);
            }
            let ended = self.process.try_wait().ok().flatten();
            ensure(ended.is_none() && self.started.elapsed() < PATIENCE, || {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                format!("{} did not start; it said:\n{}", self.name, said.trim_end())
            })?;
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// Returns the peak resident memory of the server.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0) * 1024
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended already; it has nothing to save either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns `Some` if a server listens on the address.
pub(super) fn listens(addr: SocketAddr) -> Option<()> {
    TcpStream::connect(addr).ok().map(drop)
}

/// Returns the body of `GET path`, if the status is 200.
pub(super) fn get(addr: SocketAddr, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect(addr).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}
