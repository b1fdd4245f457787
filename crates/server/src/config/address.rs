//! The address of a listener.

use std::fmt;
use std::path::PathBuf;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `host:port`; the host may be a name, an IPv4 or an IPv6 address.
    Tcp {
        /// The host, without the brackets of an IPv6 address.
        host: String,
        /// The port; 0 lets the system choose one.
        port: u16,
    },
    /// A Unix socket at this path.
    Unix(PathBuf),
    /// The listener is off.
    Off,
}

impl Listen {
    /// Returns whether the listener is off.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// Parses `host:port`, `[v6]:port`, `unix:/path` or `off`. The error tells what to write instead.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "off" {
            return Ok(Self::Off);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("; name the socket's path after `unix:`")
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if text.contains("://") {
            return Err("; leave out the scheme");
        }
        let (host, port) = text.rsplit_once(':').ok_or("; add a port, as in 0.0.0.0:8080")?;
        let port = port.parse().map_err(|_| "; the port is a number from 0 to 65535")?;
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(inside)) => inside,
            Some(None) => return Err("; close the bracket, as in [::1]:8080"),
            None if host.contains(':') => return Err("; put an IPv6 address in brackets, as in [::1]:8080"),
            None => host,
        };
        if host.is_empty() {
            return Err("; name the host too: 0.0.0.0 means every IPv4 address, [::] every address");
        }
        if host.contains(|char: char| char.is_whitespace() || "/@[]".contains(char)) {
            return Err("; the host is a name or an IP address");
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

/// Prints it in the form of the setting.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Off => f.write_str("off"),
        }
    }
}
