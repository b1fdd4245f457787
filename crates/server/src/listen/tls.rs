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

use crate::config::settings::Tls;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What new connections are secured with. Those that are open keep what they began with.
pub struct Certificates {
    /// The settings they are named in: `grpc`, for `grpc.tls.cert`.
    section: &'static str,
    files: Tls,
    protocols: &'static [&'static [u8]],
    current: ArcSwap<ServerConfig>,
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
    ) -> Result<Arc<Self>, TlsError> {
        let named = |fault: Fault| fault.of(section);
        let config = Read::of(files).and_then(|read| read.config(files, protocols)).map_err(named)?;
        let (files, current) = (files.clone(), ArcSwap::from_pointee(config));
        Ok(Arc::new(Self { section, files, protocols, current }))
    }

    /// What a new connection is to be secured with.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Looks for changed files, for ever. Files that cannot be used change nothing.
    pub async fn keep_current(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = Read::of(&self.files).ok();
        let mut refused = None;
        loop {
            ticks.tick().await;
            let found = Read::of(&self.files);
            if found.as_ref().ok() == known.as_ref() {
                refused = None;
                continue;
            }
            match found.and_then(|found| Ok((found.config(&self.files, self.protocols)?, found))) {
                Ok((config, found)) => {
                    self.current.store(Arc::new(config));
                    (known, refused) = (Some(found), None);
                    tracing::info!(cert = %self.files.cert.display(), "certificates reloaded");
                }
                // Half a change, perhaps: the next look tells. What has been said need not be said again.
                Err(fault) => {
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

    fn config(&self, files: &Tls, protocols: &[&[u8]]) -> Result<ServerConfig, Fault> {
        let chain = certificates(&self.cert, "cert", &files.cert)?;
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
        Ok(config)
    }
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
