//! TLS: certificates from files, reloaded when they change.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio::time::MissedTickBehavior;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::config::settings::Tls;
use crate::metrics::{Certified, Metrics};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What new connections are secured with. Those that are open keep what they began with.
pub struct Certificates {
    /// The settings they are named in: `grpc`, for `grpc.tls.cert`.
    section: &'static str,
    files: Tls,
    protocols: &'static [&'static [u8]],
    current: ArcSwap<ServerConfig>,
    /// What was in the files when they were loaded.
    first: Read,
    metrics: Metrics,
}

/// Why TLS cannot be spoken.
#[derive(Debug, Error)]
#[error("{file} ({section}.tls.{field}): {reason}")]
pub struct TlsError {
    /// The listener's settings.
    pub section: &'static str,
    /// The setting that names the file.
    pub field: &'static str,
    /// The file at fault.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The bytes of the files, to tell whether they changed.
#[derive(PartialEq, Eq)]
struct Read {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read or is not what it should be.
    pub fn load(
        section: &'static str,
        files: &Tls,
        protocols: &'static [&'static [u8]],
        metrics: &Metrics,
    ) -> Result<Arc<Self>, TlsError> {
        let named = |fault: Fault| fault.of(section);
        let first = Read::of(files).map_err(named)?;
        let usable = first.usable(files, protocols).map_err(named)?;
        let (files, current) = (files.clone(), ArcSwap::from_pointee(usable.config));
        let loaded = Self { section, files, protocols, current, first, metrics: metrics.clone() };
        loaded.certified().set_expiry(usable.expires_at_s);
        Ok(Arc::new(loaded))
    }

    fn certified(&self) -> &Certified {
        match self.section {
            "grpc" => &self.metrics.grpc_certificates,
            "http" => &self.metrics.http_certificates,
            _ => &self.metrics.admin_certificates,
        }
    }

    /// What a new connection is to be secured with.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Looks for changed files, for ever. Files that cannot be used change nothing.
    pub async fn keep_current(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut later, mut refused) = (None, None);
        loop {
            ticks.tick().await;
            let found = Read::of(&self.files);
            let known = later.as_ref().unwrap_or(&self.first);
            if found.as_ref().ok() == Some(known) {
                refused = None;
                continue;
            }
            match found.and_then(|found| Ok((found.usable(&self.files, self.protocols)?, found))) {
                Ok((usable, found)) => {
                    self.current.store(Arc::new(usable.config));
                    self.certified().set_expiry(usable.expires_at_s);
                    (later, refused) = (Some(found), None);
                    tracing::info!(cert = %self.files.cert.display(), "certificates reloaded");
                }
                // Half a change, perhaps: the next look tells. What has been said need not be said again.
                Err(fault) => {
                    self.certified().refused.add(1);
                    let error = fault.of(self.section).to_string();
                    if refused.as_ref() != Some(&error) {
                        tracing::warn!(error, "certificates refused, the last good ones stay in use");
                    }
                    refused = Some(error);
                }
            }
        }
    }
}

/// What is wrong with which file.
struct Fault {
    field: &'static str,
    file: String,
    reason: String,
}

impl Fault {
    fn of(self, section: &'static str) -> TlsError {
        TlsError { section, field: self.field, file: self.file, reason: self.reason }
    }
}

impl Read {
    fn of(files: &Tls) -> Result<Self, Fault> {
        let read = |field, path: &Path| fs::read(path).map_err(|error| fault(field, path, error));
        Ok(Self {
            cert: read("cert", &files.cert)?,
            key: read("key", &files.key)?,
            client_ca: files.client_ca.as_deref().map(|path| read("client_ca", path)).transpose()?,
        })
    }

    fn usable(&self, files: &Tls, protocols: &[&[u8]]) -> Result<Usable, Fault> {
        let chain = certificates(&self.cert, "cert", &files.cert)?;
        let expires_at_s = expiry(&chain).unwrap_or_default();
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| fault("key", &files.key, format!("it holds no private key in PEM: {error}")))?;
        let builder = ServerConfig::builder();
        let builder = match (&self.client_ca, &files.client_ca) {
            (Some(bytes), Some(path)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(bytes, "client_ca", path)? {
                    roots.add(certificate).map_err(|error| fault("client_ca", path, error))?;
                }
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| fault("client_ca", path, error))?)
            }
            _ => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| fault("key", &files.key, error))?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Usable { config, expires_at_s })
    }
}

/// Files that fit each other.
struct Usable {
    config: ServerConfig,
    /// When its own certificate expires, in seconds of Unix time; 0 if that cannot be read.
    expires_at_s: i64,
}

/// Of the certificate that is the listener's own: those after it may be older than what clients trust.
fn expiry(chain: &[CertificateDer<'_>]) -> Option<i64> {
    let (_, own) = X509Certificate::from_der(chain.first()?).ok()?;
    Some(own.validity().not_after.timestamp())
}

fn certificates(
    bytes: &[u8],
    field: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|error| fault(field, path, error))?;
    if found.is_empty() { Err(fault(field, path, "it holds no certificate in PEM")) } else { Ok(found) }
}

fn fault(field: &'static str, path: &Path, reason: impl Display) -> Fault {
    // By value, for errors that nobody needs afterwards.
    Fault { field, file: path.display().to_string(), reason: reason.to_string() }
}
