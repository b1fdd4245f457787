//! The API behind a real HTTP/1 connection on the loopback, and a client.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate::rules::file;
use tidegate::{Defaults, Limiter, Request as Asked, VirtualClock};
use tidegate_middleware::{ClientIp, Headers, Renderer};
use tidegate_server::bounds::Bounds;
use tidegate_server::denials::Denials;
use tidegate_server::grpc::rate_limit::RateLimit;
use tidegate_server::health::Health;
use tidegate_server::http::HttpApi;
use tidegate_server::metrics::Metrics;
use tokio::net::{TcpListener, TcpStream};

/// The rules of most tests: a minute's limit, a tight one, one on holders and one in shadow.
pub(crate) const RULES: &str = r"
domain: api
descriptors:
  - key: user
    limits:
      - { name: steady, algorithm: fixed_window, requests: 5, per: minute }
  - key: order
    limits:
      - { name: once, algorithm: fixed_window, requests: 1, per: minute }
  - key: job
    concurrency: { max: 1, timeout: 60s }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
";

/// A service on a port of its own, and one connection to it.
pub(crate) struct Service {
    pub(crate) limiter: Limiter,
    pub(crate) clock: VirtualClock,
    pub(crate) health: Health,
    pub(crate) address: SocketAddr,
    client: SendRequest<Full<Bytes>>,
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

/// A limiter with the rules of a text; without any rules if it is empty.
pub(crate) fn limiter(rules: &str) -> (Limiter, VirtualClock) {
    let clock = VirtualClock::new();
    let mut builder = Limiter::builder().clock(clock.clone());
    if !rules.is_empty() {
        let domain = file::load("r.yaml", rules, &Defaults::default());
        builder = builder.domain(domain.unwrap_or_else(|problems| panic!("{problems}")));
    }
    (builder.build().unwrap(), clock)
}

/// The API in front of a limiter, and its health: it is serving.
fn api(limiter: &Limiter, bounds: Bounds, client_ip: ClientIp) -> (HttpApi, Health) {
    let (health, metrics) = (Health::new(limiter.clone()), Metrics::default());
    health.serving();
    let rate_limit = RateLimit {
        limiter: limiter.clone(),
        bounds,
        headers: None,
        body: None,
        metrics: metrics.clone(),
        denials: Denials::default(),
    };
    let renderer = Renderer::new(Headers::default());
    let api = HttpApi {
        limiter: limiter.clone(),
        renderer,
        bounds,
        metrics,
        health: health.clone(),
        rate_limit,
        tokens: None,
        client_ip: Arc::new(client_ip),
        peer: Ipv4Addr::LOCALHOST.into(),
    };
    (api, health)
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(RULES, Bounds::default()).await
    }

    pub(crate) async fn with(rules: &str, bounds: Bounds) -> Self {
        Self::on(rules, bounds, ClientIp::new()).await
    }

    /// One that believes these proxies about who asked.
    pub(crate) async fn trusting(rules: &str, proxies: &str) -> Self {
        let client_ip = ClientIp::new().trusted_proxies([proxies]).unwrap();
        Self::on(rules, Bounds::default(), client_ip).await
    }

    async fn on(rules: &str, bounds: Bounds, client_ip: ClientIp) -> Self {
        let (limiter, clock) = limiter(rules);
        let (api, health) = api(&limiter, bounds, client_ip);
        let address = serve(api).await;
        let client = connect(address).await;
        Self { limiter, clock, health, address, client }
    }

    /// Sends a request over the one connection; opens another if that was closed.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Answer {
        if self.client.ready().await.is_err() {
            self.client = connect(self.address).await;
            self.client.ready().await.unwrap();
        }
        let response = self.client.send_request(request).await.unwrap();
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

    /// What is left of the limits of one entry, charging nothing.
    pub(crate) fn left(&self, key: &str, value: &str) -> Option<u64> {
        self.limiter.peek_now(&Asked::new("api", [(key, value)]).cost(0)).remaining()
    }
}

async fn serve(api: HttpApi) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let api = api.clone();
            let service = service_fn(move |request| {
                let api = api.clone();
                async move { Ok::<_, Infallible>(api.answer(request).await) }
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}
