//! Whom the client trusts, and how it shows itself.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::Outcome;
use super::failure::Failure;

/// Trusts the authorities of a file, else the system's; shows a certificate if it is given one and its key.
pub(super) fn trust(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> Outcome<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Failure::other(format!("cannot speak TLS: {error}")))?;
    let builder = builder.with_root_certificates(roots(ca)?);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates(cert)?;
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
            builder.with_client_auth_cert(chain, private).map_err(|error| {
                Failure::other(format!(
                    "{} and {} do not go together: {error}",
                    cert.display(),
                    key.display()
                ))
            })?
        }
    };
    Ok(Arc::new(config))
}

fn roots(ca: Option<&Path>) -> Outcome<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| unusable(file, &error))?;
        }
        return Ok(roots);
    }
    // A certificate among the system's that makes no sense is not ours to complain about.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Failure::other("this system has no authorities to trust; give the node's with --ca"));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unusable(file, &error))?;
    if all.is_empty() {
        return Err(unusable(file, &"it has no certificate; give a PEM file"));
    }
    Ok(all)
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::other(format!("cannot use {}: {error}", file.display()))
}
