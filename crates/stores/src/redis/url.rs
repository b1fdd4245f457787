//! Parses store addresses: `redis://user:password@host:6379/0` and its variants.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use thiserror::Error;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// A server's name or address, and its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    /// The host name or IP address.
    pub name: String,
    /// The TCP port.
    pub port: u16,
}

/// How the servers of a store are organized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A single server.
    Single,
    /// Sentinels, which know the current primary of a given name.
    Sentinel {
        /// The name of the primary in the configuration of the sentinels.
        name: String,
    },
    /// A Redis Cluster. The hosts of the address are asked for the other servers.
    Cluster,
    /// Independent servers, each with a share of the keys.
    Sharded,
}

/// A parsed store address.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// How the servers are organized.
    pub topology: Topology,
    /// The servers that the address names.
    pub hosts: Vec<Host>,
    /// Whether connections use TLS.
    pub tls: bool,
    /// The certificate authority to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// The ACL user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// A file with the password, read again for each connection.
    pub password_file: Option<PathBuf>,
    /// The number of the database.
    pub db: i64,
}

/// The error of a store address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{found}: {why}")]
pub struct StoreUrlError {
    /// The address, without its password.
    pub found: String,
    /// The error, and what to write instead.
    pub why: String,
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        parse(text).map_err(|why| StoreUrlError { found: without_password(text), why })
    }
}

fn parse(text: &str) -> Result<StoreUrl, String> {
    let (scheme, rest) =
        text.split_once("://").ok_or("a store is memory or an address such as redis://host:6379")?;
    let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let tls = match base {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(format!("{base} is not a store; write redis:// or rediss:// (TLS)")),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // Otherwise part of the password would be parsed as a port, and shown.
    let is_split =
        path.contains('@') || query.split(['&', '=']).next().is_some_and(|name| name.contains('@'));
    if !authority.contains('@') && is_split {
        return Err("a / or ? in a user or password must be written as %2F or %3F".to_owned());
    }
    let (user, hosts) =
        authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    let port = if kind == "sentinel" { SENTINEL_PORT } else { REDIS_PORT };
    let hosts = hosts.split(',').map(|host| parse_host(host, port)).collect::<Result<Vec<_>, _>>()?;
    let (username, password) = match user {
        None => (None, None),
        Some(user) => {
            let (name, password) =
                user.split_once(':').map_or((user, None), |(name, word)| (name, Some(word)));
            let name = decoded(name)?;
            ((!name.is_empty()).then_some(name), password.map(decoded).transpose()?)
        }
    };
    let mut url = StoreUrl {
        topology: Topology::Single,
        hosts,
        tls,
        ca: None,
        username,
        password,
        password_file: None,
        db: 0,
    };
    url.topology = topology(kind, path, &mut url)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        option(pair, &mut url)?;
    }
    if url.db != 0 && url.topology == Topology::Cluster {
        return Err("a cluster has database 0 only".to_owned());
    }
    if url.password.is_some() && url.password_file.is_some() {
        return Err("give a password or a password_file, not both".to_owned());
    }
    Ok(url)
}

fn topology(kind: &str, path: &str, url: &mut StoreUrl) -> Result<Topology, String> {
    let many = url.hosts.len() > 1;
    match kind {
        "sentinel" if path.is_empty() => {
            Err("sentinels need the primary's name: redis+sentinel://h1,h2,h3/mymaster".to_owned())
        }
        "sentinel" => Ok(Topology::Sentinel { name: decoded(path)? }),
        "" if many => {
            Err("several servers are redis+sharded://, redis+cluster:// or redis+sentinel://".to_owned())
        }
        "" | "cluster" | "sharded" => {
            if !path.is_empty() {
                url.db = path.parse().map_err(|_| format!("/{path} must be the number of a database"))?;
            }
            Ok(match kind {
                "" => Topology::Single,
                "cluster" => Topology::Cluster,
                _ => Topology::Sharded,
            })
        }
        other => Err(format!("+{other} is unknown; write +sentinel, +cluster or +sharded")),
    }
}

fn option(pair: &str, url: &mut StoreUrl) -> Result<(), String> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let value = decoded(value)?;
    match name {
        "ca" => url.ca = Some(value.into()),
        "password_file" => url.password_file = Some(value.into()),
        "db" => url.db = value.parse().map_err(|_| format!("db={value} must be the number of a database"))?,
        other => return Err(format!("{other} is unknown; ca, password_file and db are known")),
    }
    Ok(())
}

fn parse_host(text: &str, port: u16) -> Result<Host, String> {
    let bad_port = |port: &str| format!("{port} must be a port between 1 and 65535");
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, port),
        Some((name, rest)) => {
            let digits = rest.strip_prefix(':').unwrap_or(rest);
            (name, digits.parse().map_err(|_| bad_port(digits))?)
        }
        None => match text.split_once(':') {
            Some((name, digits)) => (name, digits.parse().map_err(|_| bad_port(digits))?),
            None => (text, port),
        },
    };
    if name.is_empty() {
        return Err("a host is missing; write redis://host:6379".to_owned());
    }
    Ok(Host { name: name.to_owned(), port })
}

fn decoded(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| "percent-encoded text must be UTF-8")?;
    Ok(text.into_owned())
}

/// Returns an address without its password, for display.
fn without_password(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (_, None) => text.to_owned(),
        (Some((scheme, _)), Some((before, rest))) if before.contains("://") => {
            format!("{scheme}://***@{rest}")
        }
        // An address without a scheme may still have a password.
        (_, Some((_, rest))) => format!("***@{rest}"),
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// Formats the address without its password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "rediss" } else { "redis" })?;
        f.write_str(match &self.topology {
            Topology::Single => "://",
            Topology::Sentinel { .. } => "+sentinel://",
            Topology::Cluster => "+cluster://",
            Topology::Sharded => "+sharded://",
        })?;
        if let Some(username) = &self.username {
            write!(f, "{username}@")?;
        }
        let hosts: Vec<_> = self.hosts.iter().map(Host::to_string).collect();
        f.write_str(&hosts.join(","))?;
        match &self.topology {
            Topology::Sentinel { name } => write!(f, "/{name}"),
            _ if self.db != 0 => write!(f, "/{}", self.db),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}
