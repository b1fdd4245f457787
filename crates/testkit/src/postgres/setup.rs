//! With which settings.

use std::fmt::Write as _;
use std::path::Path;

/// A server to be started.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub(super) settings: Vec<(String, String)>,
    pub(super) password: Option<String>,
    pub(super) tls: bool,
}

impl Setup {
    /// One without TLS that trusts everybody on this machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// A line of its configuration.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Who comes over the network has to know this.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Who comes over the network has to use TLS.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// The configuration file.
    pub(super) fn file(&self, port: u16, folder: &Path) -> String {
        let mut text = String::new();
        let socket = folder.display().to_string();
        let port = port.to_string();
        let mut lines: Vec<(&str, &str)> = vec![
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", &socket),
            // What a killed process has written is still there; only a power cut would lose it.
            ("fsync", "off"),
            ("shared_buffers", "16MB"),
            ("max_connections", "60"),
            ("wal_keep_size", "64MB"),
            // A standby that is behind replays at once, and asks again soon.
            ("wal_retrieve_retry_interval", "100ms"),
            ("autovacuum_naptime", "1h"),
        ];
        if self.tls {
            lines.extend([("ssl", "on"), ("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")]);
        }
        lines.extend(self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        for (key, value) in lines {
            writeln!(text, "{key} = '{}'", value.replace('\'', "''")).expect("a string takes it");
        }
        text
    }

    /// Who may come in, and how.
    pub(super) fn access(&self) -> String {
        let kind = if self.tls { "hostssl" } else { "host" };
        let method = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        format!(
            "local all all trust\n{kind} all all 127.0.0.1/32 {method}\nhost replication all 127.0.0.1/32 trust\n"
        )
    }
}
