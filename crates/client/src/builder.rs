//! Setting up a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use rustls::RootCertStore;
use thiserror::Error;
use tidegate::{LimitSpec, Limiter};

use crate::client::{Client, Inner};
use crate::local::LocalLimiter;
use crate::transport::Transport;
use crate::{scopes, tls};

const DEFAULT_DEADLINE: Duration = Duration::from_millis(250);

/// Sets up a [`Client`].
///
/// ```no_run
/// use tidegate_client::{Client, Fallback};
///
/// let client = Client::builder("https://limits.internal")
///     .ca("ca.pem")
///     .token("...")
///     .fallback(Fallback::Deny)
///     .build()?;
/// # Ok::<(), tidegate_client::BuildError>(())
/// ```
#[must_use = "nothing happens until `build` is called"]
pub struct Builder {
    url: String,
    ca: Option<PathBuf>,
    token: Option<String>,
    deadline: Duration,
    fallback: Fallback,
    local: tidegate::Builder,
    local_limits: Vec<LimitSpec>,
}

/// What becomes of a request while the service does not respond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// It passes.
    Allow,
    /// It is denied for a second.
    Deny,
    /// It is counted in this process: against the limits that it brings along, else the rules of
    /// [`Builder::local`], else [`Builder::local_limits`]. Where there is none of them, it passes.
    #[default]
    Local,
}

/// Reasons a client cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The address of the service is not a URL that can be asked.
    #[error("service url {url:?}: {reason}; write one such as http://localhost:8080")]
    Url {
        /// The address as written.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The authorities to trust cannot be read.
    #[error("authority of the service in {}: {reason}; give a file of certificates in PEM", file.display())]
    Ca {
        /// The file as given.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("https to the service: {0}; name its authority with Builder::ca")]
    Tls(String),
    /// The token cannot be sent.
    #[error("the token for the service has characters that a header cannot hold; look for a line break")]
    Token,
    /// The limits for when the service does not respond are invalid.
    #[error("local limits: {0}")]
    LocalLimits(tidegate::InlineError),
    /// The limiter for when the service does not respond cannot be built.
    #[error("{0}")]
    Local(#[from] tidegate::BuildError),
}

impl Builder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            ca: None,
            token: None,
            deadline: DEFAULT_DEADLINE,
            fallback: Fallback::default(),
            local: Limiter::builder(),
            local_limits: Vec::new(),
        }
    }

    /// Trusts the authorities in a file of certificates (PEM) over https, in place of the system's.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Sends a bearer token with every request.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets how long a call may take in all; 250 ms by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets what becomes of requests while the service does not respond; [`Fallback::Local`] by default.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Sets up the limiter in this process that [`Fallback::Local`] decides by: its rules apply to their domains
    /// while the service does not respond.
    ///
    /// ```
    /// use tidegate::{Domain, Limiter, Rule, per_minute};
    /// use tidegate_client::Client;
    ///
    /// let api = Domain::new("api").rule(Rule::by("user").limit(per_minute(10)));
    /// let client =
    ///     Client::builder("http://localhost:8080").local(Limiter::builder().domain(api)).build()?;
    /// # Ok::<(), tidegate_client::BuildError>(())
    /// ```
    pub fn local(mut self, limiter: tidegate::Builder) -> Self {
        self.local = limiter;
        self
    }

    /// Sets the limits that [`Fallback::Local`] holds each descriptor against where neither the request nor the
    /// rules of [`Builder::local`] have limits for it.
    pub fn local_limits(mut self, limits: impl IntoIterator<Item = LimitSpec>) -> Self {
        self.local_limits = limits.into_iter().collect();
        self
    }

    /// Builds the client. Nothing is sent yet.
    ///
    /// # Errors
    /// If the address, the token, the authorities or the limiter in this process are invalid.
    pub fn build(self) -> Result<Client, BuildError> {
        let wrong = |reason: String| BuildError::Url { url: self.url.clone(), reason };
        let uri: Uri = self.url.trim_end_matches('/').parse().map_err(|error| wrong(format!("{error}")))?;
        let roots = match (uri.scheme_str(), uri.authority()) {
            (Some("https"), Some(_)) => tls::roots(self.ca.as_deref())?,
            (Some("http"), Some(_)) if self.ca.is_some() => {
                return Err(wrong("an authority to trust is for https".to_owned()));
            }
            (Some("http"), Some(_)) => RootCertStore::empty(),
            _ => return Err(wrong("it has no http:// or https:// and host".to_owned())),
        };
        let authorization = self.token.map(|token| bearer(&token)).transpose()?;
        let url = uri.to_string().trim_end_matches('/').to_owned();
        let scopes = scopes::of_service(&url);
        let transport = Transport::new(url, tls::config(roots)?, authorization, self.deadline);
        let local = LocalLimiter::build(self.local, &self.local_limits)?;
        Ok(Client(Arc::new(Inner::new(transport, self.deadline, self.fallback, local, scopes))))
    }
}

fn bearer(token: &str) -> Result<HeaderValue, BuildError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| BuildError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}
