//! The Rust client and the real service, over http and https.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tidegate::{Request, Source, per_minute};
use tidegate_client::{Builder, Client, Fallback};

use crate::support::service::{PATIENCE, Service, Setup, service};

const RULES: &str = "
domain: api
inline_limits: {max: 10}
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 5}}
";

fn ann() -> Request<'static> {
    Request::new("api", [("user", "ann")])
}

fn built(builder: Builder) -> Client {
    let builder = builder.deadline(PATIENCE).fallback(Fallback::Deny);
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}

/// The calls that every limiter has, by a client.
async fn does_what_every_limiter_does(client: &Client) {
    assert_eq!(client.check(&ann().cost(5)).await.remaining(), Some(0));
    let denied = client.check(&ann()).await;
    assert_eq!((denied.allowed(), denied.source()), (false, Source::Memory));
    client.refund(&ann().cost(2)).await;
    assert_eq!(client.peek(&ann().cost(0)).await.remaining(), Some(2));
    client.refund(&ann().cost(100)).await;
    assert_eq!(client.peek(&ann().cost(0)).await.remaining(), Some(5), "never above full");
    let limits = client.inline_limits("api", &[per_minute(3)]).expect("they can be sent");
    let own = Request::new("api", [("route", "search")]).limits(&limits).cost(3);
    assert!(client.check(&own).await.allowed());
    assert!(!client.check(&own).await.allowed());
    client.refund(&own).await;
    assert!(client.check(&own).await.allowed());
    client.refund(&own).await;
    let health = client.health();
    assert_eq!((health.refused, health.failed, health.skipped), (0, 0, 0));
}

/// An authority of a test's own and a certificate of it, as files.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        Self::of(&["localhost", "127.0.0.1"])
    }

    fn of(hosts: &[&str]) -> Self {
        let named = |name: &str, hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
            let mut params = CertificateParams::new(hosts).expect("parameters");
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let folder = tempfile::tempdir().expect("a folder");
        let ca_key = KeyPair::generate().expect("a key");
        let mut ca = named("authority", &[]);
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = ca.self_signed(&ca_key).expect("a certificate").pem();
        let key = KeyPair::generate().expect("a key");
        let params = named("service", hosts);
        let certificate = params.signed_by(&key, &Issuer::new(ca, ca_key)).expect("a certificate");
        for (name, text) in
            [("ca.pem", ca_pem), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())]
        {
            fs::write(folder.path().join(name), text).expect("it is written");
        }
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn serves(&self) -> Service {
        let path = |name| self.file(name).display().to_string();
        let setup = Setup::rules(RULES).with("http.tls.cert", &path("cert.pem"));
        setup.with("http.tls.key", &path("key.pem")).start()
    }
}

#[tokio::test]
async fn a_client_does_over_http_what_every_limiter_does() {
    let service = service(RULES);
    let client = built(Client::builder(format!("http://{}", service.http)));
    does_what_every_limiter_does(&client).await;
}

#[tokio::test]
async fn a_client_does_over_https_what_every_limiter_does() {
    let authority = Authority::new();
    let service = authority.serves();
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{}/", service.http.port());
        let client = built(Client::builder(url).ca(authority.file("ca.pem")));
        does_what_every_limiter_does(&client).await;
    }
}

#[tokio::test]
async fn an_authority_that_is_not_the_services_counts_as_no_service() {
    let (ours, other, elsewhere) =
        (Authority::new(), Authority::new(), Authority::of(&["elsewhere.example"]));
    let (service, named_otherwise) = (ours.serves(), elsewhere.serves());
    let url = |service: &Service| format!("https://127.0.0.1:{}", service.http.port());
    for builder in [
        Client::builder(url(&service)).ca(other.file("ca.pem")),
        Client::builder(url(&named_otherwise)).ca(elsewhere.file("ca.pem")),
    ] {
        let client = built(builder);
        assert_eq!(client.check(&ann()).await.source(), Source::Deny);
        let health = client.health();
        assert_eq!((health.failed, health.available), (1, false));
    }
    // And nothing is said in the clear.
    let client = built(Client::builder(format!("http://127.0.0.1:{}", service.http.port())));
    assert_eq!(client.check(&ann()).await.source(), Source::Deny);
    let client = built(Client::builder(url(&service)).ca(ours.file("ca.pem")));
    assert_eq!(client.peek(&ann().cost(0)).await.remaining(), Some(5), "nothing was taken");
}

#[test]
fn authorities_that_are_none_are_named_when_the_client_is_built() {
    let authority = Authority::new();
    let built = |url: &str, file: &Path| {
        let built = Client::builder(url).ca(file).deadline(Duration::from_secs(1)).build();
        built.expect_err("it is refused").to_string()
    };
    for (name, text) in [("empty.pem", ""), ("nonsense.pem", "nonsense")] {
        fs::write(authority.file(name), text).expect("it is written");
        let error = built("https://localhost", &authority.file(name));
        assert!(error.contains(name) && error.contains("it has no certificate"), "{error}");
    }
    let missing = built("https://localhost", &authority.file("missing.pem"));
    assert!(
        missing.contains("missing.pem") && missing.contains("give a PEM file of certificates"),
        "{missing}"
    );
    let plain = built("http://localhost", &authority.file("ca.pem"));
    assert!(plain.contains("an authority to trust is for https"), "{plain}");
}
