//! The builder of a client.

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

/// Builds a [`Client`].
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

/// How requests are decided while the service does not respond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Requests are allowed.
    Allow,
    /// Requests are denied, with a retry after 1 s.
    Deny,
    /// Requests are counted in this process: against their inline limits, else the rules of [`Builder::local`], else
    /// [`Builder::local_limits`]. Requests to which none of these apply are allowed.
    #[default]
    Local,
}

/// Reasons a client cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The address of the service is not a valid HTTP URL.
    #[error("service url {url:?}: {reason}; write one such as http://localhost:8080")]
    Url {
        /// The address as given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file of certificate authorities cannot be read.
    #[error("certificate authorities in {}: {reason}; give a PEM file of certificates", file.display())]
    Ca {
        /// The file as given.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("TLS to the service cannot be set up: {0}; set its certificate authority with Builder::ca")]
    Tls(String),
    /// The token contains characters that a header cannot contain.
    #[error("the token for the service has characters that a header cannot hold; look for a line break")]
    Token,
    /// The limits for the local fallback are invalid.
    #[error("local limits: {0}")]
    LocalLimits(tidegate::InlineError),
    /// The limiter for the local fallback cannot be built.
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

    /// Trusts the certificate authorities in a PEM file for https, in place of the system's.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Sends a bearer token with every request.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets how long a call may take in total. The default is 250 ms.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how requests are decided while the service does not respond. The default is [`Fallback::Local`].
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Sets the limiter in this process that [`Fallback::Local`] uses: while the service does not respond, its rules
    /// apply to requests of their domains.
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

    /// Sets the limits that [`Fallback::Local`] applies to each descriptor if neither the request nor the rules of
    /// [`Builder::local`] have limits for it.
    pub fn local_limits(mut self, limits: impl IntoIterator<Item = LimitSpec>) -> Self {
        self.local_limits = limits.into_iter().collect();
        self
    }

    /// Builds the client. Does not connect yet.
    ///
    /// # Errors
    /// Returns an error if the address, the token, the certificate authorities or the local limiter are invalid.
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
