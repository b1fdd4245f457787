//! Servers on hyper that allow every request. HTTP/1.1 is configured like Tidegate's HTTP listener.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

/// The same value as in Tidegate's HTTP/2 server.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Runs a future on the current thread.
pub(super) fn block_on(serve: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve)
}

pub(super) async fn serve_grpc(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    loop {
        let socket = accept(&listener).await?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .auto_date_header(false)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(1024);
        tokio::spawn(builder.serve_connection(TokioIo::new(socket), service_fn(allow_grpc)));
    }
}

pub(super) async fn serve_http(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    loop {
        let socket = accept(&listener).await?;
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(None).pipeline_flush(true);
        tokio::spawn(builder.serve_connection(TokioIo::new(socket), service_fn(allow_http)));
    }
}

pub(super) async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (socket, _) = listener.accept().await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

async fn allow_grpc(request: Request<Incoming>) -> Result<Response<Allow>, hyper::Error> {
    request.into_body().collect().await?;
    let mut response = Response::new(Allow(0));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

async fn allow_http(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    request.into_body().collect().await?;
    let mut response = Response::new(Full::new(Bytes::from_static(br#"{"allowed":true}"#)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// A response body: a message that allows the request, then trailers. The number counts the frames already returned.
struct Allow(u8);

impl Body for Allow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1 => Some(Ok(Frame::data(Bytes::from_static(b"\0\0\0\0\x02\x08\x01")))),
            2 => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                Some(Ok(Frame::trailers(trailers)))
            }
            _ => None,
        })
    }
}
