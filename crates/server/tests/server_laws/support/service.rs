//! The real binary, started with rules and settings of a test's own and stopped with it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// How long anything may take before a test gives up: far more than it ever does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running service.
pub(crate) struct Service {
    pub(crate) folder: TempDir,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    child: Child,
    errors: thread::JoinHandle<String>,
}

/// How to start one.
pub(crate) struct Setup {
    folder: TempDir,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    /// What starts the binary, with its arguments, if something does.
    starter: Vec<String>,
}

/// What a service that ended has left.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) errors: String,
    pub(crate) folder: TempDir,
}

impl Setup {
    /// A service with one rule file.
    pub(crate) fn rules(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("rules")).expect("a folder");
        let setup = Self { folder, settings: Vec::new(), environment: Vec::new(), starter: Vec::new() };
        setup.write_rules("rules.yaml", text);
        setup
    }

    /// One that goes on from what another has left.
    pub(crate) fn after(ended: Ended) -> Self {
        Self { folder: ended.folder, settings: Vec::new(), environment: Vec::new(), starter: Vec::new() }
    }

    /// With a setting, by its dotted name.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With something in the environment that is no setting.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Under another program that then becomes this one: `prlimit`, say.
    pub(crate) fn under(mut self, starter: &[&str]) -> Self {
        self.starter = starter.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write_rules(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join("rules").join(file), text).expect("rules are written");
    }

    fn command(&self) -> Command {
        let binary = env!("CARGO_BIN_EXE_tidegate").to_owned();
        let mut words = self.starter.iter().chain([&binary]);
        let mut command = Command::new(words.next().unwrap_or(&binary));
        command.args(words);
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        command.arg("serve").current_dir(self.folder.path());
        // Whoever runs the tests may have settings of their own.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIDEGATE_"))
        {
            command.env_remove(name);
        }
        command.env("TIDEGATE_RULES", path("rules")).env("TIDEGATE_DATA", path("data"));
        for listener in ["GRPC", "HTTP", "ADMIN"] {
            command.env(format!("TIDEGATE_{listener}__LISTEN"), "127.0.0.1:0");
        }
        for (name, value) in &self.settings {
            command.env(format!("TIDEGATE_{}", name.replace('.', "__").to_uppercase()), value);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts it and waits until it says where it listens.
    pub(crate) fn start(self) -> Service {
        self.start_after(|_| {})
    }

    /// The same, having done something with its process id first.
    pub(crate) fn start_after(self, first: impl FnOnce(u32)) -> Service {
        let mut child = self.command().spawn().expect("the binary starts");
        first(child.id());
        let mut stderr = child.stderr.take().expect("it is piped");
        let errors = thread::spawn(move || {
            let mut text = String::new();
            // What cannot be read is not there.
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut places = [None; 3];
        for line in stdout.lines().map_while(Result::ok) {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let place = words.next().and_then(|place| place.parse::<SocketAddr>().ok());
            if let Some(index) = ["admin", "grpc", "http"].iter().position(|known| *known == name) {
                places[index] = place;
            }
            if name == "http" || line.starts_with("try it") {
                break;
            }
        }
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let [admin, grpc, http] = places.map(|place| place.unwrap_or(nowhere));
        if places == [None; 3] {
            let _ = child.wait();
            panic!("the service did not start: {}", errors.join().unwrap_or_default());
        }
        Service { folder: self.folder, grpc, http, admin, child, errors }
    }

    /// Starts it, does something with its process id, and expects that it ends.
    pub(crate) fn end_after(self, first: impl FnOnce(u32)) -> Ended {
        let child = self.command().spawn().expect("the binary starts");
        first(child.id());
        let output = child.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Ended { status: output.status, errors, folder: self.folder }
    }

    /// Starts it and expects that it ends by itself.
    pub(crate) fn fail(self) -> Ended {
        let output = self.command().output().expect("the binary starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Ended { status: output.status, errors, folder: self.folder }
    }
}

/// A service with these rules and the usual settings.
pub(crate) fn service(rules: &str) -> Service {
    Setup::rules(rules).start()
}

impl Service {
    /// Sends it a signal, by name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Memory it has.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
        1024 * line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    }

    /// Tells it to stop and waits until it has.
    pub(crate) fn stop(self) -> Ended {
        self.signal("TERM");
        self.wait()
    }

    /// Waits until it ends.
    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.wait().expect("it is our child");
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"));
        let errors = std::mem::replace(&mut self.errors, thread::spawn(String::new));
        Ended { status, errors: errors.join().unwrap_or_default(), folder }
    }

    /// Ends it without a warning.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().expect("it runs");
        self.wait()
    }

    /// A path in its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes its rules and waits until they are in force.
    pub(crate) fn change_rules(&self, text: &str) {
        let before = self.generation();
        fs::write(self.file("rules/rules.yaml"), text).expect("rules are written");
        until("the rules are in force", || self.generation() > before);
    }

    /// How often rules were loaded.
    pub(crate) fn generation(&self) -> u64 {
        let detail: serde_json::Value = serde_json::from_str(&get(self.admin, "/readyz").body).expect("JSON");
        detail["rules"]["generation"].as_u64().expect("a number")
    }

    /// Checks over HTTP; `entries` is the descriptor as JSON.
    pub(crate) fn check(&self, domain: &str, descriptor: &str) -> Answer {
        let body = format!(r#"{{"domain":"{domain}","descriptor":{descriptor}}}"#);
        post(self.http, "/v1/check", &body)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// GETs a path.
pub(crate) fn get(at: SocketAddr, path: &str) -> Answer {
    send(at, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

/// POSTs JSON.
pub(crate) fn post(at: SocketAddr, path: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}"
    );
    send(at, &format!("{head}\r\nconnection: close\r\n\r\n{body}"))
}

/// Sends a text and reads the answer until the connection closes.
pub(crate) fn send(at: SocketAddr, request: &str) -> Answer {
    send_bytes(at, request.as_bytes())
}

/// Sends bytes and reads the answer until the connection closes.
pub(crate) fn send_bytes(at: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(request).expect("it reads");
    let mut answer = Vec::new();
    // A connection that is reset after the answer has answered all the same.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut answer = Answer { status, head: head.to_owned(), body: body.to_owned() };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunked(body);
    }
    answer
}

/// The pieces of a body without their lengths.
fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        let Some(piece) = after.get(..length).filter(|_| length > 0) else { break };
        body.push_str(piece);
        rest = after[length..].trim_start_matches("\r\n");
    }
    body
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let look = Duration::from_millis(20);
    for _ in 0..PATIENCE.as_millis() / look.as_millis() {
        if holds() {
            return;
        }
        thread::sleep(look);
    }
    panic!("gave up waiting until {what}");
}
