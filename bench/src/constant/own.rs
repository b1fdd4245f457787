//! A server on Tidegate's own HTTP/2 that allows every request, configured like its gRPC listener.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use tidegate_http2::{Answer, Inbox, Server, Service, Settings, Whole};
use tokio::net::TcpListener;

use super::bare::accept;

/// The default settings of the service.
const SETTINGS: Settings = Settings {
    max_streams: 1024,
    max_calls: 256,
    header_bytes: 16 << 10,
    body_bytes: 256 << 10,
    body_patience: Duration::from_secs(10),
    keep_alive: None,
};

pub(super) async fn serve(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    loop {
        let socket = accept(&listener).await?;
        tokio::spawn(Server::new(socket, Allow, SETTINGS));
    }
}

/// A service that allows every request.
struct Allow;

impl Service for Allow {
    type Call = ();
    type Body = Empty<Bytes>;

    fn route(&self, _: &Request<()>) -> Option<()> {
        Some(())
    }

    fn answer(&self, (): &(), _: Whole<'_>, out: &mut Vec<u8>) -> Answer {
        out.extend_from_slice(b"\x08\x01");
        Answer::Message
    }

    fn call(&self, _: Request<Inbox>) -> impl Future<Output = Response<Self::Body>> + Send + 'static {
        // Never called, because every request body is collected.
        ready(Response::new(Empty::new()))
    }
}
