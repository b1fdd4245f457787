//! The certificates that are trusted for https.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::builder::BuildError;

/// Returns a TLS configuration that trusts these certificate authorities.
pub(crate) fn config(roots: RootCertStore) -> Result<ClientConfig, BuildError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| BuildError::Tls(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Returns the certificate authorities in a PEM file, or those of the system if there is no file.
pub(crate) fn roots(ca: Option<&Path>) -> Result<RootCertStore, BuildError> {
    match ca {
        Some(file) => roots_of_file(file),
        None => roots_of_system(),
    }
}

fn roots_of_file(file: &Path) -> Result<RootCertStore, BuildError> {
    let unusable = |reason: String| BuildError::Ca { file: file.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("it has no certificate".to_owned())) } else { Ok(roots) }
}

fn roots_of_system() -> Result<RootCertStore, BuildError> {
    let mut roots = RootCertStore::empty();
    // Invalid certificates of the system are skipped, because the application cannot repair them.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(BuildError::Tls("this system has no authorities to trust".to_owned()));
    }
    Ok(roots)
}
