//! What an application says about a service.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use parking_lot::Mutex;
use thiserror::Error;
use tidegate_core::KeySeed;

use super::Service;
use super::post::Http;
use super::tls::trust;
use crate::inline::{InlineError, InlineLimits, Unnamed};
use crate::rules::limit_spec::{Defaults, LimitSpec};
use crate::rules::tree::RuleEntry;

const USUAL_DEADLINE: Duration = Duration::from_millis(250);

/// A service to ask, for [`crate::Builder::remote`].
#[derive(Clone, Debug)]
#[must_use = "hand it to `Builder::remote`"]
pub struct Remote {
    url: String,
    ca: Option<PathBuf>,
    token: Option<String>,
    deadline: Duration,
    fallback: RemoteFallback,
    local_limits: Vec<LimitSpec>,
}

/// What is done with a request while the service does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemoteFallback {
    /// It passes.
    Allow,
    /// It is denied for a second.
    Deny,
    /// It is counted in this process: against the limits it brings along, else the rules of this limiter,
    /// else [`Remote::local_limits`]; with none of them it passes.
    #[default]
    Local,
}

/// Why a service cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The address is none.
    #[error("remote url {url:?}: {reason}; write one such as http://localhost:8080")]
    Url {
        /// As written.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The authorities to trust cannot be read.
    #[error(
        "authority of the remote service in {}: {reason}; give a file of certificates in PEM",
        file.display()
    )]
    Ca {
        /// As given.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS is not to be had here.
    #[error("https to the remote service: {0}; name its authority with Remote::ca")]
    Tls(String),
    /// The token cannot be sent.
    #[error(
        "the token for the remote service has characters that a header cannot hold; look for a line break"
    )]
    Token,
    /// The limits for when the service is away are none.
    #[error("local limit {name:?}: {reason}")]
    LocalLimits {
        /// The limit's name, or its window.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

impl Remote {
    /// The service at an address such as `http://localhost:8080` or `https://limits.example.org`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca: None,
            token: None,
            deadline: USUAL_DEADLINE,
            fallback: RemoteFallback::default(),
            local_limits: Vec::new(),
        }
    }

    /// A file with the certificates (PEM) of the authorities to trust over https, in place of the system's.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// The bearer token that it asks for.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a check may take in all; 250 ms unless told otherwise.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What is done while it does not answer.
    pub fn fallback(mut self, fallback: RemoteFallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// What each descriptor is held against in this process while the service does not answer, where
    /// nothing better is known.
    pub fn local_limits(mut self, limits: impl IntoIterator<Item = LimitSpec>) -> Self {
        self.local_limits = limits.into_iter().collect();
        self
    }

    pub(crate) fn url(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    pub(crate) fn open(self) -> Result<Arc<Service>, SettingsError> {
        let wrong = |reason: String| SettingsError::Url { url: self.url.clone(), reason };
        let uri: Uri = self.url.trim_end_matches('/').parse().map_err(|error| wrong(format!("{error}")))?;
        let tls = match (uri.scheme_str(), uri.authority()) {
            (Some("https"), Some(_)) => Some(trust(self.ca.as_deref())?),
            (Some("http"), Some(_)) if self.ca.is_some() => {
                return Err(wrong("an authority to trust is for https".to_owned()));
            }
            (Some("http"), Some(_)) => None,
            _ => return Err(wrong("it has no http:// or https:// and host".to_owned())),
        };
        let authorization = self.token.map(|token| bearer(&token)).transpose()?;
        let local_limits = local_limits(&self.local_limits)?;
        Ok(Arc::new(Service {
            http: Http::new(
                uri.to_string().trim_end_matches('/').to_owned(),
                tls,
                authorization,
                self.deadline,
            ),
            deadline: self.deadline,
            fallback: self.fallback,
            local_limits,
            breaker: Mutex::default(),
            gathering: Mutex::default(),
            detached: Mutex::default(),
            made_here: Mutex::default(),
            counts: super::Counts::default(),
        }))
    }
}

impl<T: Into<String>> From<T> for Remote {
    fn from(url: T) -> Self {
        Self::new(url)
    }
}

fn bearer(token: &str) -> Result<HeaderValue, SettingsError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| SettingsError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

fn local_limits(limits: &[LimitSpec]) -> Result<Option<InlineLimits>, SettingsError> {
    if limits.is_empty() {
        return Ok(None);
    }
    // The domain is told apart by the entries, see `decide`.
    let entry = RuleEntry::inline("", limits, Unnamed::ByNumbers, &Defaults::default(), KeySeed(0));
    let entry = entry.map_err(|error| match error {
        InlineError::Invalid { name, reason } => SettingsError::LocalLimits { name, reason },
        other => SettingsError::LocalLimits { name: String::new(), reason: other.to_string() },
    })?;
    Ok(Some(InlineLimits(Arc::new(entry), limits.into())))
}
