//! The TLS configuration of the client.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::Outcome;
use super::failure::Failure;

/// Trusts the certificate authorities in a file, else those of the system. Uses a client certificate if there is one.
pub(super) fn trust(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> Outcome<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Failure::other(format!("TLS cannot be configured: {error}")))?;
    let builder = builder.with_root_certificates(roots(ca)?);
    let Some((cert, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(cert)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    builder.with_client_auth_cert(chain, private).map_err(|error| {
        Failure::other(format!("{} and {} do not match: {error}", cert.display(), key.display()))
    })
}

fn roots(ca: Option<&Path>) -> Outcome<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| unusable(file, &error))?;
        }
        return Ok(roots);
    }
    // Invalid certificates of the system are ignored.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Failure::other(
            "this system has no certificate authorities; give that of the node with --ca",
        ));
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
