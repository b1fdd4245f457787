//! A private certificate authority, and a server certificate for 127.0.0.1.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// The paths of the certificate files.
pub(crate) struct Certificates {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Returns the paths in `folder`.
    pub(crate) fn of(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        Self { authority: file("ca.pem"), certificate: file("server.pem"), key: file("server.key") }
    }

    /// Generates new certificates and writes them to `folder`.
    pub(crate) fn write(folder: &Path) {
        let authority_key = KeyPair::generate().expect("a key");
        let mut params = named("authority of the tests", Vec::new());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&authority_key).expect("a certificate");
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let params = named("server of the tests", names);
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let files = Self::of(folder);
        let texts = [authority.pem(), certificate.pem(), key.serialize_pem()];
        for (file, text) in [files.authority, files.certificate, files.key].into_iter().zip(texts) {
            fs::write(file, text).expect("the folder can be written");
        }
    }
}

/// Returns parameters with this common name. The authority and the server need different names: with equal
/// ones the server certificate would look self-signed.
fn named(name: &str, hosts: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
