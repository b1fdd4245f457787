//! A server that always allows, on hyper: gRPC on the first port given, HTTP/1.1 on the second.
//!
//! It is what the generator's own cost is measured against.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// A message that allows, and the trailers after it.
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
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                Some(Ok(Frame::trailers(trailers)))
            }
            _ => None,
        })
    }
}

async fn grpc(request: Request<Incoming>) -> Result<Response<Allow>, hyper::Error> {
    request.into_body().collect().await?;
    let mut response = Response::new(Allow(0));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

async fn http(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    request.into_body().collect().await?;
    Ok(Response::new(Full::new(Bytes::from_static(br#"{"allowed":true}"#))))
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = |at| std::env::args().nth(at).ok_or("give two ports: that of gRPC and that of HTTP/1.1");
    let addr = |port: String| port.parse().map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let (grpc_addr, http_addr) = (addr(port(1)?)?, addr(port(2)?)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let grpc_listener = TcpListener::bind(grpc_addr).await?;
        let http_listener = TcpListener::bind(http_addr).await?;
        tokio::task::spawn_local(async move {
            while let Ok((socket, _)) = http_listener.accept().await {
                let _ = socket.set_nodelay(true);
                let mut server = http1::Builder::new();
                let serve =
                    server.timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service_fn(http));
                tokio::task::spawn_local(serve);
            }
        });
        loop {
            let (socket, _) = grpc_listener.accept().await?;
            socket.set_nodelay(true)?;
            let mut server = http2::Builder::new(Local);
            let serve =
                server.timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service_fn(grpc));
            tokio::task::spawn_local(serve);
        }
    })
}

/// Runs the tasks of hyper on this thread.
#[derive(Clone)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async move {
            task.await;
        });
    }
}
