//! The kinds of values that settings have, in the file, the environment and flags alike.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate::rules::file::words;
use tidegate::{Switch, Switches};
use tidegate_catalog::Catalog;
use tidegate_middleware::ClientIp;
use tidegate_middleware::client_ip::NetworkError;

use super::address::Listen;
use super::secret::{Secret, redacted};
use super::settings::{CatalogListen, CatalogLocation, Store};
use super::units::{bytes, duration, length, millionths, size, whole};

/// The value of `rules` if all rules are in the catalog.
const CATALOG: &str = "catalog";

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A path; a relative one in the settings file is relative to its folder.
    Path,
    /// A path, or empty.
    OptionalPath,
    /// A path to rules, or `catalog`.
    Rules,
    /// An address to listen on, or `off` if that is allowed.
    Listen {
        /// Whether `off` is allowed.
        off: bool,
    },
    /// The store of the counters.
    Store,
    /// The location of the catalog.
    Catalog,
    /// How to be notified of changes in the catalog.
    CatalogListen,
    /// Any text.
    Text,
    /// Any text, which is never shown.
    Secret,
    /// Host names, separated by commas, or empty.
    Hosts,
    /// Rules and their switches.
    Switches,
    /// Addresses and networks of proxies, separated by commas, or empty.
    Networks,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Whole {
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// A number of bytes, such as `256KiB`.
    Size {
        /// The minimum in bytes.
        least: u64,
        /// The maximum in bytes.
        most: u64,
    },
    /// A duration, such as `1h30m`.
    Duration {
        /// The meaning of 0; `None` if 0 is rejected.
        zero: Option<&'static str>,
        /// The maximum.
        most: Duration,
    },
    /// One of a few words.
    Word(&'static [&'static str]),
    /// An `http://` or `https://` address, or empty.
    Url,
    /// A fraction from 0 to 1, with up to six decimals.
    Fraction,
}

/// The value of a setting.
#[derive(Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described in Kind")]
pub enum Value {
    Path(PathBuf),
    OptionalPath(Option<PathBuf>),
    Rules(Option<PathBuf>),
    Listen(Listen),
    Store(Store),
    Catalog(CatalogLocation),
    CatalogListen(CatalogListen),
    Text(String),
    Secret(Secret),
    Hosts(Vec<String>),
    Switches(BTreeMap<String, Switch>),
    Networks(Vec<String>),
    Flag(bool),
    Whole(u64),
    Size(u64),
    Duration(Duration),
    Word(&'static str),
    Url(Option<String>),
    /// In parts per million.
    Fraction(u32),
}

impl Kind {
    /// Returns what is allowed, in the form that follows `must be`.
    pub fn allowed(&self) -> String {
        match self {
            Self::Path => "a path".to_owned(),
            Self::OptionalPath => "a path, or empty".to_owned(),
            Self::Rules => "a path, or catalog".to_owned(),
            Self::Listen { off } => {
                let off = if *off { ", or off" } else { "" };
                format!("an address such as 0.0.0.0:8080, [::]:8080 or unix:/run/tidegate.sock{off}")
            }
            Self::Store => "memory, or an address such as redis://host:6379".to_owned(),
            Self::Catalog => "sqlite, or an address such as postgres://user@host/database".to_owned(),
            Self::CatalogListen => {
                "auto, off, or an address such as postgres://user@host/database".to_owned()
            }
            Self::Text | Self::Secret => "a text".to_owned(),
            Self::Hosts => "host names such as `tidegate.internal, *.example.com`, or empty".to_owned(),
            Self::Switches => "a list such as `api_key=shadow, ip=off`".to_owned(),
            Self::Networks => "addresses and networks such as `10.0.0.0/8, 192.0.2.7`, a number of hops up to 32 such as `1`, or empty".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Whole { least, most } => format!("a whole number from {least} to {most}"),
            Self::Size { least, most } => {
                format!("a size from {} to {}, such as 256KiB", size(*least), size(*most))
            }
            Self::Duration { zero, most } => {
                let zero = zero.map_or(String::new(), |zero| format!(", or 0 for {zero}"));
                format!("a duration up to {}, such as 250ms, 90s or 1h30m{zero}", duration(*most))
            }
            Self::Word(words) => format!("one of {}", words::list(words.iter().copied())),
            Self::Url => "an http:// or https:// address, or empty".to_owned(),
            Self::Fraction => "a fraction from 0 to 1 with at most six decimals, such as 0.01".to_owned(),
        }
    }

    /// Parses a text.
    ///
    /// # Errors
    /// What is allowed, what was found, and what to write instead if that is known.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        self.read(text).map_err(|remedy| match remedy {
            ParseError::Remedy(remedy) => {
                format!("must be {}, got {}{remedy}", self.allowed(), self.found(text))
            }
            ParseError::Whole(message) => message,
        })
    }

    fn read(&self, text: &str) -> Result<Value, ParseError> {
        let wrong = || ParseError::Remedy(String::new());
        match self {
            Self::Path | Self::Rules if text.is_empty() => Err(wrong()),
            Self::Path => Ok(Value::Path(text.into())),
            Self::OptionalPath => Ok(Value::OptionalPath((!text.is_empty()).then(|| text.into()))),
            Self::Rules => Ok(Value::Rules((text != CATALOG).then(|| text.into()))),
            Self::Listen { off } => match Listen::parse(text) {
                Ok(Listen::Off) if !off => {
                    Err(ParseError::Remedy("; this listener cannot be off".to_owned()))
                }
                Ok(listen) => Ok(Value::Listen(listen)),
                Err(remedy) => Err(ParseError::Remedy(remedy.to_owned())),
            },
            Self::Store => store(text),
            Self::Catalog => catalog(text),
            Self::CatalogListen => catalog_listen(text),
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Secret => Ok(Value::Secret(Secret::new(text))),
            Self::Hosts => hosts(text),
            Self::Switches => Switches::read_rules(text)
                .map(Value::Switches)
                .map_err(|error| ParseError::Whole(error.to_string())),
            Self::Networks => networks(text),
            Self::Flag => flag(text).map(Value::Flag).ok_or_else(wrong),
            Self::Whole { least, most } => whole(text)
                .filter(|number| (least..=most).contains(&number))
                .map(Value::Whole)
                .ok_or_else(wrong),
            Self::Size { least, most } => {
                bytes(text).filter(|bytes| (least..=most).contains(&bytes)).map(Value::Size).ok_or_else(wrong)
            }
            Self::Duration { zero, most } => {
                let length =
                    length(text, zero.is_some()).map_err(|remedy| ParseError::Remedy(remedy.to_owned()))?;
                if length > *most { Err(wrong()) } else { Ok(Value::Duration(length)) }
            }
            Self::Word(words) => {
                let word = words.iter().find(|word| **word == text);
                let remedy = || ParseError::Remedy(words::did_you_mean(text, words.iter().copied()));
                word.map(|word| Value::Word(word)).ok_or_else(remedy)
            }
            Self::Url => url(text),
            Self::Fraction => millionths(text).map(Value::Fraction).ok_or_else(wrong),
        }
    }

    /// Returns what was found, without secrets.
    fn found(&self, text: &str) -> String {
        match self {
            _ if text.is_empty() => "nothing".to_owned(),
            Self::Secret => Secret::new(text).to_string(),
            Self::Store | Self::Catalog | Self::CatalogListen | Self::Url => words::quoted(&redacted(text)),
            _ => words::quoted(&shown(text)),
        }
    }
}

/// Returns a text without the password that it has if it is a URL.
pub(super) fn shown(text: &str) -> String {
    if text.contains('@') || text.contains("://") { redacted(text) } else { text.to_owned() }
}

enum ParseError {
    /// A hint that follows `must be …, got …`; may be empty.
    Remedy(String),
    /// A complete message.
    Whole(String),
}

fn store(text: &str) -> Result<Value, ParseError> {
    if text == "memory" {
        return Ok(Value::Store(Store::Memory));
    }
    if !text.contains(':') {
        return Err(ParseError::Remedy(words::did_you_mean(text, ["memory"])));
    }
    match text.parse() {
        Ok(url) => Ok(Value::Store(Store::Redis(url))),
        // The URL may have a password.
        Err(error) => Err(ParseError::Whole(format!("{}: {}", redacted(text), error.why))),
    }
}

fn catalog(text: &str) -> Result<Value, ParseError> {
    match text {
        "sqlite" => Ok(Value::Catalog(CatalogLocation::Sqlite)),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            // The error does not show the password of the URL.
            let checked = Catalog::postgres(url).map_err(|error| ParseError::Whole(error.to_string()));
            checked.map(|_| Value::Catalog(CatalogLocation::Postgres(url.to_owned())))
        }
        other => Err(ParseError::Remedy(words::did_you_mean(other, ["sqlite"]))),
    }
}

/// Trusts the proxies in these networks, or as many hops as a single number says.
pub(super) fn trusting(client_ip: ClientIp, trusted: &[String]) -> Result<ClientIp, NetworkError> {
    match trusted {
        [hops] if hops.bytes().all(|byte| byte.is_ascii_digit()) => match hops.parse() {
            Ok(hops @ 0..=MOST_HOPS) => Ok(client_ip.trusted_hops(hops)),
            _ => Err(NetworkError(hops.clone())),
        },
        networks => client_ip.trusted_proxies(networks),
    }
}

/// The maximum number of hops.
const MOST_HOPS: u8 = 32;

/// Parses host names, in lower case.
fn hosts(text: &str) -> Result<Value, ParseError> {
    let list: Vec<String> = text
        .split(',')
        .map(|each| each.trim().to_ascii_lowercase())
        .filter(|each| !each.is_empty())
        .collect();
    let is_name = |name: &str| {
        let name = name.strip_prefix("*.").unwrap_or(name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    match list.iter().find(|name| *name != "*" && !is_name(name)) {
        None => Ok(Value::Hosts(list)),
        Some(wrong) => {
            let wrong = words::quoted(&shown(wrong));
            Err(ParseError::Remedy(format!(
                "; {wrong} is not a host name: leave out the scheme and the port"
            )))
        }
    }
}

fn catalog_listen(text: &str) -> Result<Value, ParseError> {
    match text {
        "auto" => Ok(Value::CatalogListen(CatalogListen::Auto)),
        "off" => Ok(Value::CatalogListen(CatalogListen::Off)),
        "sqlite" => Err(ParseError::Remedy("; SQLite does not notify of changes".to_owned())),
        other => match catalog(other)? {
            Value::Catalog(place) => Ok(Value::CatalogListen(CatalogListen::At(place))),
            _ => Err(ParseError::Remedy(String::new())),
        },
    }
}

fn networks(text: &str) -> Result<Value, ParseError> {
    let list: Vec<String> =
        text.split(',').map(str::trim).filter(|each| !each.is_empty()).map(str::to_owned).collect();
    match trusting(ClientIp::new(), &list) {
        Ok(_) => Ok(Value::Networks(list)),
        Err(error) => Err(ParseError::Whole(error.to_string())),
    }
}

/// Parses a flag as rule files do.
fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" | "on" => Some(true),
        "false" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

fn url(text: &str) -> Result<Value, ParseError> {
    if text.is_empty() {
        return Ok(Value::Url(None));
    }
    let http = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match (http, text.parse::<http::Uri>()) {
        (Some(_), Ok(uri)) if uri.host().is_some_and(|host| !host.is_empty()) => {
            Ok(Value::Url(Some(text.to_owned())))
        }
        (None, _) => Err(ParseError::Remedy("; begin it with http:// or https://".to_owned())),
        _ => Err(ParseError::Remedy(String::new())),
    }
}

impl Value {
    /// Returns the value with relative paths resolved in `folder`.
    pub(super) fn within(self, folder: &Path) -> Self {
        // Removes the `.` in `conf/./rules`.
        let join = |path: PathBuf| folder.join(path).components().collect();
        match self {
            Self::Path(path) => Self::Path(join(path)),
            Self::OptionalPath(path) => Self::OptionalPath(path.map(join)),
            Self::Rules(path) => Self::Rules(path.map(join)),
            Self::Listen(Listen::Unix(path)) => Self::Listen(Listen::Unix(join(path))),
            other => other,
        }
    }
}

/// Shows the value as `Display` does, without secrets.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Prints the value in a form that can be parsed again, except that secrets and passwords are printed as `***`. Prints
/// nothing if there is no value.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) | Self::OptionalPath(Some(path)) | Self::Rules(Some(path)) => {
                write!(f, "{}", path.display())
            }
            Self::OptionalPath(None) | Self::Url(None) => Ok(()),
            Self::Rules(None) => f.write_str(CATALOG),
            Self::Listen(listen) => listen.fmt(f),
            // The password of the URL is not printed.
            Self::Store(Store::Memory) => f.write_str("memory"),
            Self::Store(Store::Redis(url)) => url.fmt(f),
            Self::Catalog(place) | Self::CatalogListen(CatalogListen::At(place)) => place.fmt(f),
            Self::CatalogListen(CatalogListen::Auto) => f.write_str("auto"),
            Self::CatalogListen(CatalogListen::Off) => f.write_str("off"),
            Self::Text(text) => f.write_str(text),
            Self::Secret(secret) => secret.fmt(f),
            Self::Switches(switches) => {
                let pairs: Vec<_> =
                    switches.iter().map(|(rule, switch)| format!("{rule}={switch}")).collect();
                f.write_str(&pairs.join(", "))
            }
            Self::Networks(list) | Self::Hosts(list) => f.write_str(&list.join(", ")),
            Self::Flag(flag) => flag.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Size(bytes) => f.write_str(&size(*bytes)),
            Self::Duration(length) => f.write_str(&duration(*length)),
            Self::Word(word) => f.write_str(word),
            Self::Url(Some(url)) => f.write_str(&redacted(url)),
            Self::Fraction(ppm) => {
                let text = format!("{}.{:06}", ppm / 1_000_000, ppm % 1_000_000);
                f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}
