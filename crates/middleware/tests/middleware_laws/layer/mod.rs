//! The layer on real servers: who passes, what is answered, and what handlers see.

mod deciding;
mod handlers;
mod permits;
mod protocols;
mod without_store;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tidegate::{Domain, Limiter, Rule, VirtualClock, per_minute};
use tidegate_middleware::RateLimitLayer;
use tokio::net::TcpListener;

use crate::stub::Stub;

/// A limiter of this process whose time stands still.
pub(crate) fn limiter() -> Limiter {
    let shop = Domain::new("shop")
        .rule(Rule::by("user").limit(per_minute(2)))
        .rule(Rule::by("export").concurrency(1, std::time::Duration::from_mins(1)));
    let apps = Domain::new("apps").inline_limits(100);
    Limiter::builder().domain(apps).domain(shop).clock(VirtualClock::new()).build().unwrap()
}

/// A client of the stub, with a deadline that only a stub that hangs misses.
pub(crate) fn client_of(stub: &Stub) -> tidegate_client::Client {
    let deadline = std::time::Duration::from_secs(10);
    tidegate_client::Client::builder(stub.url()).deadline(deadline).build().unwrap()
}

/// A layer whose limits are written as text.
pub(crate) fn limited(limits: &str) -> RateLimitLayer {
    RateLimitLayer::new(limiter()).limits(limits).unwrap()
}

/// An app with one route behind the layer.
pub(crate) fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

/// Serves on a free port for as long as the test runs.
pub(crate) async fn serve(app: Router) -> Caller {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Caller::to(address)
}

/// Whoever calls a server from outside.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Caller {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self { address, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        self.with(path, &[]).await
    }

    pub(crate) async fn with(&self, path: &str, headers: &[(&str, &str)]) -> Seen {
        let mut request = Request::get(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Seen {
        let (head, body) = self.client.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Seen { status: head.status.as_u16(), headers: head.headers, body }
    }
}
