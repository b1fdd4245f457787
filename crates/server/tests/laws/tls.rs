//! TLS and mTLS with certificates made for the test.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::runtime::Builder;
use tonic::transport::{Certificate as PemCertificate, ClientTlsConfig, Endpoint, Identity};

use crate::support::grpc::Client;
use crate::support::service::{Service, Setup, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000}}]
";

/// An authority of our own.
struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate and its key, both as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    fn write(&self, folder: &Path) {
        let (certificate, key) = self.issue("localhost");
        fs::write(folder.join("cert.pem"), certificate).expect("it is written");
        fs::write(folder.join("key.pem"), key).expect("it is written");
    }
}

fn secured(authority: &Authority, client_ca: Option<&Authority>) -> Service {
    let setup = Setup::rules(RULES);
    authority.write(setup.path());
    let path = |name: &str| setup.path().join(name).display().to_string();
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
    let mut setup = setup.with("grpc.tls.cert", &cert).with("grpc.tls.key", &key);
    if let Some(authority) = client_ca {
        fs::write(&ca, authority.pem()).expect("it is written");
        setup = setup.with("grpc.tls.client_ca", &ca);
    }
    setup.start()
}

/// A client that trusts an authority, perhaps with a certificate of its own.
fn client(service: &Service, trusted: &Authority, identity: Option<(String, String)>) -> Option<Client> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(PemCertificate::from_pem(trusted.pem()))
        .domain_name("localhost");
    if let Some((certificate, key)) = identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let endpoint = Endpoint::from_shared(format!("https://{}", service.grpc)).expect("an address");
    let endpoint = endpoint.tls_config(tls).expect("a configuration");
    let channel = runtime.block_on(endpoint.connect()).ok()?;
    Some(Client::over(runtime, channel))
}

fn passes(client: Option<Client>) -> bool {
    client.is_some_and(|mut client| {
        let request = crate::support::clients::envoy::service::ratelimit::v3::RateLimitRequest {
            domain: "api".to_owned(),
            descriptors: vec![crate::support::grpc::descriptor(&[("user", "ann")])],
            hits_addend: 0,
        };
        client.ask(request).is_ok()
    })
}

#[test]
fn tls_serves_who_trusts_the_authority() {
    let (ours, other) = (Authority::new(), Authority::new());
    let service = secured(&ours, None);
    assert!(passes(client(&service, &ours, None)));
    assert!(!passes(client(&service, &other, None)));
}

#[test]
fn mtls_wants_a_certificate_of_the_right_authority() {
    let (ours, clients, other) = (Authority::new(), Authority::new(), Authority::new());
    let service = secured(&ours, Some(&clients));
    assert!(passes(client(&service, &ours, Some(clients.issue("envoy")))));
    assert!(!passes(client(&service, &ours, Some(other.issue("envoy")))));
    assert!(!passes(client(&service, &ours, None)));
}

#[test]
fn certificates_are_reloaded_when_they_change() {
    let (before, after) = (Authority::new(), Authority::new());
    let service = secured(&before, None);
    let mut open = client(&service, &before, None).expect("it is trusted");
    after.write(service.folder.path());
    until("the new certificate is served", || passes(client(&service, &after, None)));
    assert!(!passes(client(&service, &before, None)));
    open.check_one("api", "user", "ann");
    fs::write(service.file("cert.pem"), "nonsense").expect("it is written");
    let ended = service.stop();
    assert!(ended.status.success());
}

#[test]
fn files_that_are_no_certificates_are_named_at_the_start() {
    let setup = Setup::rules(RULES);
    Authority::new().write(setup.path());
    let path = |name: &str| setup.path().join(name).display().to_string();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    fs::write(&cert, "nonsense").expect("it is written");
    let ended = setup.with("http.tls.cert", &cert).with("http.tls.key", &key).fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("cert.pem: it holds no certificate in PEM"), "{}", ended.errors);
}
