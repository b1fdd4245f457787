//! Servers of hyper and tonic.

use std::convert::Infallible;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate_middleware::key::{by_header, by_ip};
use tidegate_middleware::{PeerAddr, RateLimitLayer};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::Layer;

use super::{Caller, limited};

#[tokio::test]
async fn a_hyper_server_is_limited_by_the_peer_that_it_tells() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let layer = limited("2/minute");
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let hello = tower::service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::from("hello")))
            });
            let limited = layer.layer(hello);
            let telling = tower::service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerAddr(peer));
                tower::ServiceExt::oneshot(limited.clone(), request)
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(telling));
            tokio::spawn(connection);
        }
    });
    let caller = Caller::to(address);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(caller.get("/").await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
}

async fn health(layer: RateLimitLayer) -> HealthClient<Channel> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_reporter, service) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    HealthClient::new(channel)
}

#[tokio::test]
async fn a_grpc_client_is_told_resource_exhausted_with_the_headers() {
    let mut client = health(limited("2/minute").key(by_header("x-api-key").or(by_ip()))).await;
    let ask = |key: &'static str| {
        let mut request = tonic::Request::new(HealthCheckRequest { service: String::new() });
        request.metadata_mut().insert("x-api-key", key.parse().unwrap());
        request
    };
    let allowed = client.check(ask("ann")).await.unwrap();
    assert_eq!(allowed.metadata().get("x-ratelimit-remaining").unwrap(), "1");
    client.check(ask("ann")).await.unwrap();
    let denied = client.check(ask("ann")).await.unwrap_err();
    assert_eq!(denied.code(), tonic::Code::ResourceExhausted);
    assert!(
        denied.message().starts_with("limit minute of rule inline allows 2 per minute; retry in"),
        "{denied}"
    );
    assert!(denied.metadata().get("retry-after").is_some());
    assert!(denied.metadata().get("ratelimit").is_some());
    assert!(client.check(ask("bob")).await.is_ok());
}

#[cfg(feature = "tonic")]
#[tokio::test]
async fn a_tonic_server_tells_the_address_itself() {
    let client_ip = tidegate_middleware::ClientIp::new().trusted_proxies(["127.0.0.1"]).unwrap();
    let mut client = health(limited("1/minute").client_ip(client_ip)).await;
    let ask = |from: &'static str| {
        let mut request = tonic::Request::new(HealthCheckRequest { service: String::new() });
        request.metadata_mut().insert("x-forwarded-for", from.parse().unwrap());
        request
    };
    // Without the peer's address nobody would be believed.
    for (from, passes) in [("198.51.100.1", true), ("198.51.100.2", true), ("198.51.100.1", false)] {
        assert_eq!(client.check(ask(from)).await.is_ok(), passes);
    }
}
