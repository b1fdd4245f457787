//! TLS and mTLS with certificates made for the test.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
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
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate and its key, both as PEM.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        self.issue_until(name, (4000, 1, 1))
    }

    /// One that expires at the beginning of a day.
    fn issue_until(&self, name: &str, (year, month, day): (i32, u8, u8)) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        params.not_after = rcgen::date_time_ymd(year, month, day);
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
fn the_expiry_of_certificates_is_a_metric_and_refused_ones_are_counted() {
    let authority = Authority::new();
    let service = secured(&authority, None);
    let has = |line: &str| {
        let metrics = crate::support::service::get(service.admin, "/metrics").body;
        metrics.lines().any(|found| found == line)
    };
    let replace = |not_after| {
        let (certificate, key) = authority.issue_until("localhost", not_after);
        fs::write(service.file("cert.pem"), certificate).expect("it is written");
        fs::write(service.file("key.pem"), key).expect("it is written");
    };
    // The 3rd of February 2031 and 2032.
    let [sooner, later] = ["1927843200", "1959379200"]
        .map(|at| format!("ratelimit_certificate_expiry_timestamp_seconds{{listener=\"grpc\"}} {at}"));
    replace((2031, 2, 3));
    until("the new expiry is told", || has(&sooner));
    let refused = "ratelimit_certificate_reload_failures_total{listener=\"grpc\"}";
    let before = crate::support::service::get(service.admin, "/metrics").body;
    let count = |metrics: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(refused)).expect("it is counted");
        line.trim().parse::<u64>().expect("a number")
    };
    fs::write(service.file("key.pem"), "nonsense").expect("it is written");
    until("the refusal is counted", || {
        count(&crate::support::service::get(service.admin, "/metrics").body) > count(&before)
    });
    assert!(has(&sooner), "the last good ones stay in use");
    assert!(!before.contains("certificate_expiry_timestamp_seconds{listener=\"http\"}"), "it has none");
    replace((2032, 2, 3));
    until("the new expiry is told", || has(&later));
}

/// The status of a GET over TLS, with the protocol that both prefer; `None` if there is no connection.
fn get(
    at: SocketAddr,
    trusted: &Authority,
    protocol: &[u8],
    identity: Option<(String, String)>,
) -> Option<u16> {
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem().as_bytes()).expect("PEM")).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("they fit")
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(at).await.ok()?;
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        let request = http::Request::get("https://localhost/healthcheck")
            .body(Empty::<Bytes>::new())
            .expect("a request");
        let io = TokioIo::new(stream);
        let answer = if protocol == b"h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.ok()?;
            tokio::spawn(connection);
            sender.send_request(request).await
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.ok()?;
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        answer.ok().map(|answer| answer.status().as_u16())
    })
}

#[test]
fn the_http_and_admin_listeners_speak_tls_and_mtls_too() {
    let (ours, clients, other) = (Authority::new(), Authority::new(), Authority::new());
    let setup = Setup::rules(RULES);
    ours.write(setup.path());
    fs::write(setup.path().join("ca.pem"), clients.pem()).expect("it is written");
    let path = |name: &str| setup.path().join(name).display().to_string();
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
    let setup = setup.with("http.tls.cert", &cert).with("http.tls.key", &key);
    let setup = setup.with("admin.tls.cert", &cert).with("admin.tls.key", &key);
    let service = setup.with("admin.tls.client_ca", &ca).start();
    for protocol in [&b"http/1.1"[..], b"h2"] {
        assert_eq!(get(service.http, &ours, protocol, None), Some(200));
        assert_eq!(get(service.http, &other, protocol, None), None);
        assert_eq!(get(service.admin, &ours, protocol, Some(clients.issue("prometheus"))), Some(200));
        assert_eq!(get(service.admin, &ours, protocol, Some(other.issue("prometheus"))), None);
        assert_eq!(get(service.admin, &ours, protocol, None), None);
    }
    let before =
        crate::support::service::send(service.http, "GET /healthcheck HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_ne!(before.status, 200, "nothing is said in the clear");
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
    assert!(
        ended.errors.contains("cert.pem (http.tls.cert): it holds no certificate in PEM"),
        "{}",
        ended.errors
    );
}
