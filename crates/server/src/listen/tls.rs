//! TLS certificates from files, which are reloaded when they change.

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
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;

use crate::config::settings::Tls;
use crate::metrics::ListenerMetrics;

/// How often the files are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The certificates for new connections. Open connections keep those they started with.
pub struct Certificates {
    files: Tls,
    protocols: &'static [&'static [u8]],
    current: ArcSwap<ServerConfig>,
    /// The contents of the files when they were first loaded.
    first: FileContents,
    listener: Arc<ListenerMetrics>,
}

/// The error of a certificate file that cannot be used.
#[derive(Debug, Error)]
#[error("{file} ({section}.tls.{field}): {reason}")]
pub struct TlsError {
    /// The name of the listener, which is the section of its settings.
    pub section: &'static str,
    /// The setting that names the file.
    pub field: &'static str,
    /// The path of the file.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The content of the files, to detect changes.
#[derive(PartialEq, Eq)]
struct FileContents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is not valid.
    pub fn load(
        files: &Tls,
        protocols: &'static [&'static [u8]],
        listener: Arc<ListenerMetrics>,
    ) -> Result<Arc<Self>, TlsError> {
        let named = |fault: Fault| fault.of(listener.name);
        let first = FileContents::read(files).map_err(named)?;
        let loaded = first.load(files, protocols).map_err(named)?;
        let (files, current) = (files.clone(), ArcSwap::from_pointee(loaded.config));
        listener.certificates.set_expiry(loaded.expires_at_s);
        Ok(Arc::new(Self { files, protocols, current, first, listener }))
    }

    /// Returns the configuration for a new connection.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Reloads files when they change; never returns. If the new files cannot be used, the old certificates stay in
    /// use.
    pub async fn keep_current(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(RELOAD_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut later, mut refused) = (None, None);
        loop {
            ticks.tick().await;
            let found = FileContents::read(&self.files);
            let known = later.as_ref().unwrap_or(&self.first);
            if found.as_ref().ok() == Some(known) {
                refused = None;
                continue;
            }
            match found.and_then(|found| Ok((found.load(&self.files, self.protocols)?, found))) {
                Ok((loaded, found)) => {
                    self.current.store(Arc::new(loaded.config));
                    self.listener.certificates.set_expiry(loaded.expires_at_s);
                    (later, refused) = (Some(found), None);
                    tracing::info!(cert = %self.files.cert.display(), "certificates reloaded");
                }
                // The files may be changing right now. An error is logged once.
                Err(fault) => {
                    self.listener.certificates.refused.add(1);
                    let error = fault.of(self.listener.name).to_string();
                    if refused.as_ref() != Some(&error) {
                        tracing::warn!(error, "certificates refused, the last good ones stay in use");
                    }
                    refused = Some(error);
                }
            }
        }
    }
}

/// An error in a certificate file.
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

impl FileContents {
    fn read(files: &Tls) -> Result<Self, Fault> {
        let read = |field, path: &Path| fs::read(path).map_err(|error| fault(field, path, error));
        Ok(Self {
            cert: read("cert", &files.cert)?,
            key: read("key", &files.key)?,
            client_ca: files.client_ca.as_deref().map(|path| read("client_ca", path)).transpose()?,
        })
    }

    fn load(&self, files: &Tls, protocols: &[&[u8]]) -> Result<Loaded, Fault> {
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
        Ok(Loaded { config, expires_at_s })
    }
}

/// Certificates that were loaded and are valid.
struct Loaded {
    config: ServerConfig,
    /// When the listener's certificate expires, in seconds of Unix time; 0 if that cannot be read.
    expires_at_s: i64,
}

/// Returns the expiry of the first certificate, which is the listener's own.
fn expiry(chain: &[CertificateDer<'_>]) -> Option<i64> {
    // Parsed leniently: validation is up to the clients.
    let own = CertificateInner::<Raw>::from_der(chain.first()?).ok()?;
    i64::try_from(own.tbs_certificate().validity().not_after.to_unix_duration().as_secs()).ok()
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
    Fault { field, file: path.display().to_string(), reason: reason.to_string() }
}
