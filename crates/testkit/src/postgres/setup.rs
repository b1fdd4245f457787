//! The settings of a `PostgreSQL` server to start.

use std::fmt::Write as _;
use std::path::Path;

/// The settings of a server, started with [`start`](Self::start).
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub(super) settings: Vec<(String, String)>,
    pub(super) password: Option<String>,
    pub(super) tls: bool,
}

impl Setup {
    /// Creates settings for a server without TLS that accepts every local user without a password.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line to the configuration.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Requires this password from clients that connect over TCP.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Requires TLS from clients that connect over TCP.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Returns the text of the configuration file.
    pub(super) fn file(&self, port: u16, folder: &Path) -> String {
        let mut text = String::new();
        let socket = folder.display().to_string();
        let port = port.to_string();
        let mut lines: Vec<(&str, &str)> = vec![
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", &socket),
            // The writes of a killed process survive without it; only a power failure would lose them.
            ("fsync", "off"),
            ("shared_buffers", "16MB"),
            ("max_connections", "60"),
            ("wal_keep_size", "64MB"),
            // A standby server that is behind retries soon.
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

    /// Returns the text of `pg_hba.conf`: which clients may connect, and how they authenticate.
    pub(super) fn access(&self) -> String {
        let kind = if self.tls { "hostssl" } else { "host" };
        let method = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        format!(
            "local all all trust\n{kind} all all 127.0.0.1/32 {method}\nhost replication all 127.0.0.1/32 trust\n"
        )
    }
}
