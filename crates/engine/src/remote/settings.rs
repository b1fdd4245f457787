//! What an application says about a service.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use parking_lot::Mutex;
use thiserror::Error;
use tidegate_core::KeySeed;

use super::Service;
use super::post::Http;
use crate::inline::{InlineError, InlineLimits};
use crate::rules::limit_spec::{Defaults, LimitSpec};
use crate::rules::tree::RuleEntry;

const USUAL_DEADLINE: Duration = Duration::from_millis(250);

/// A service to ask, for [`crate::Builder::remote`].
#[derive(Clone, Debug)]
#[must_use = "hand it to `Builder::remote`"]
pub struct Remote {
    url: String,
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
    /// The service at an address such as `http://localhost:8080`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            deadline: USUAL_DEADLINE,
            fallback: RemoteFallback::default(),
            local_limits: Vec::new(),
        }
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

    pub(crate) fn open(self) -> Result<Arc<Service>, SettingsError> {
        let wrong = |reason: String| SettingsError::Url { url: self.url.clone(), reason };
        let uri: Uri = self.url.trim_end_matches('/').parse().map_err(|error| wrong(format!("{error}")))?;
        match (uri.scheme_str(), uri.authority()) {
            (Some("http"), Some(_)) => {}
            (Some("https"), _) => {
                let reason = "https is not spoken here; put a local proxy that does in between";
                return Err(wrong(reason.to_owned()));
            }
            _ => return Err(wrong("it has no http:// and host".to_owned())),
        }
        let authorization = self.token.map(|token| bearer(&token)).transpose()?;
        let local_limits = local_limits(&self.local_limits)?;
        Ok(Arc::new(Service {
            http: Http::new(uri.to_string().trim_end_matches('/').to_owned(), authorization, self.deadline),
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
    let entry =
        RuleEntry::inline("", limits, &Defaults::default(), KeySeed(0)).map_err(|error| match error {
            InlineError::Invalid { name, reason } => SettingsError::LocalLimits { name, reason },
            other => SettingsError::LocalLimits { name: String::new(), reason: other.to_string() },
        })?;
    Ok(Some(InlineLimits(Arc::new(entry), limits.into())))
}
