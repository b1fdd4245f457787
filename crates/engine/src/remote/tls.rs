//! Whom a remote limiter trusts over https.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::settings::SettingsError;

/// Trusts the authorities of a file, else the system's.
pub(super) fn trust(ca: Option<&Path>) -> Result<Arc<ClientConfig>, SettingsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| SettingsError::Tls(error.to_string()))?;
    let roots = match ca {
        Some(file) => of_file(file)?,
        None => of_the_system()?,
    };
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn of_file(file: &Path) -> Result<RootCertStore, SettingsError> {
    let unusable = |reason: String| SettingsError::Ca { file: file.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("it has no certificate".to_owned())) } else { Ok(roots) }
}

fn of_the_system() -> Result<RootCertStore, SettingsError> {
    let mut roots = RootCertStore::empty();
    // A certificate among the system's that makes no sense is not ours to complain about.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(SettingsError::Tls("this system has no authorities to trust".to_owned()));
    }
    Ok(roots)
}
