//! A connection to the service, plain or with TLS.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

/// Opens connections, with TLS where the address says https.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Option<Arc<ClientConfig>>,
    /// Of connecting, and then of the handshake.
    deadline: Duration,
}

/// An open connection.
pub(super) enum Stream {
    Plain(TcpStream),
    /// Boxed, for it is much larger.
    Tls(Box<TlsStream<TcpStream>>),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Connector {
    pub(super) fn new(tls: Option<Arc<ClientConfig>>, deadline: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(deadline));
        // It would refuse https, which is ours to speak.
        tcp.enforce_http(false);
        Self { tcp, tls, deadline }
    }

    async fn open(mut self, uri: Uri) -> Result<TokioIo<Stream>, BoxError> {
        let name = (uri.scheme() == Some(&Scheme::HTTPS)).then(|| host(&uri)).transpose()?;
        let stream = self.tcp.call(uri).await?.into_inner();
        let (Some(name), Some(tls)) = (name, self.tls) else {
            return Ok(TokioIo::new(Stream::Plain(stream)));
        };
        let handshake = timeout(self.deadline, TlsConnector::from(tls).connect(name, stream)).await;
        let handshake = handshake.map_err(|_| "the TLS handshake took longer than the deadline")?;
        let stream = handshake.map_err(|error| {
            format!(
                "the TLS handshake failed: {error}; if its authority is your own, name it with Remote::ca"
            )
        })?;
        Ok(TokioIo::new(Stream::Tls(Box::new(stream))))
    }
}

/// The name that its certificate must have.
fn host(uri: &Uri) -> Result<ServerName<'static>, BoxError> {
    let host = uri.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok(ServerName::try_from(bare.to_owned())?)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().open(uri))
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(stream) => stream.connected(),
            Self::Tls(stream) => stream.get_ref().0.connected(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
