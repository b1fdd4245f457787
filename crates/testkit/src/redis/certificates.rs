//! A private authority, and a certificate of it for 127.0.0.1.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Where the files are.
pub(crate) struct Certificates {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Where they are in a folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        Self { authority: file("ca.pem"), certificate: file("server.pem"), key: file("server.key") }
    }

    /// Makes new ones.
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

/// Each with a name of its own: of two that have the same, one would pass for signed by itself.
fn named(name: &str, hosts: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
