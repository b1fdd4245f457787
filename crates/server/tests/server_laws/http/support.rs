//! The real binary behind one kept HTTP/1 connection.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::service::{self as process, Setup, get};

/// The rules of most tests: two limits by the day, one on holders and one in shadow. Buckets have no
/// seams, so no test can meet one, and of the first answer even the times are known.
pub(crate) const RULES: &str = r"
domain: api
descriptors:
  - key: user
    limits:
      - { name: steady, algorithm: token_bucket, requests: 5, per: day }
  - key: order
    limits:
      - { name: once, algorithm: token_bucket, requests: 1, per: day }
  - key: job
    concurrency: { max: 1, timeout: 1h }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
";

/// One connection to a service; opened anew where the service has closed it.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    connection: SendRequest<Full<Bytes>>,
}

/// The service in a process of its own, and a client.
pub(crate) struct Service {
    pub(crate) process: process::Service,
    client: Client,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn detail(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(problem["title"].is_string() && problem["type"].is_string());
        problem["detail"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) async fn at(address: SocketAddr) -> Self {
        Self { address, connection: connect(address).await }
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Answer {
        if self.connection.ready().await.is_err() {
            self.connection = connect(self.address).await;
            self.connection.ready().await.unwrap();
        }
        let response = self.connection.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status, headers: head.headers, body }
    }

    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.post_as(Some("application/json"), path, body).await
    }

    pub(crate) async fn post_as(
        &mut self,
        content_type: Option<&str>,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::post(path).header("host", "tidegate");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        self.send(request.body(Full::new(body.into())).unwrap()).await
    }

    pub(crate) async fn check(&mut self, body: impl Into<Bytes>) -> Answer {
        self.post("/v1/check", body).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Request::get(path).header("host", "tidegate").body(Full::default()).unwrap()).await
    }

    /// What is left of the limit of one entry, charging nothing.
    pub(crate) async fn left(&mut self, key: &str, value: &str) -> Option<u64> {
        let body = json!({ "domain": "api", "descriptor": { key: value }, "cost": 0 });
        self.check(body.to_string()).await.json()["limits"][0]["remaining"].as_u64()
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(RULES, &[]).await
    }

    /// One with these rules, none if the text is empty, and these settings.
    pub(crate) async fn with(rules: &str, settings: &[(&str, &str)]) -> Self {
        let setup = Setup::rules(rules);
        if rules.is_empty() {
            std::fs::remove_file(setup.path().join("rules/rules.yaml")).unwrap();
        }
        let setup = settings.iter().fold(setup, |setup, (name, value)| setup.with(name, value));
        let process = setup.start();
        let client = Client::at(process.http).await;
        Self { process, client }
    }

    /// What a metric has counted, by its name and labels.
    pub(crate) fn counted(&self, series: &str) -> u64 {
        let metrics = get(self.process.admin, "/metrics").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
    }

    /// How many decisions of a rule of `domain` went so.
    pub(crate) fn decisions(&self, domain: &str, rule: &str, outcome: &str) -> u64 {
        let labels = format!("{{domain=\"{domain}\",rule=\"{rule}\",outcome=\"{outcome}\"}}");
        self.counted(&format!("ratelimit_decisions_total{labels}"))
    }
}

impl std::ops::Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl std::ops::DerefMut for Service {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}
