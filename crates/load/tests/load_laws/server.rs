//! A rate limiter on hyper that counts the requests it gets.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tidegate_load::Endpoint;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{oneshot, watch};

/// A response of the server: a gRPC message and status, or an HTTP status and body.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) grpc_status: &'static str,
    /// Whether HTTP/1.1 closes the connection after it.
    pub(crate) closes: bool,
}

impl Reply {
    pub(crate) fn grpc(allowed: bool) -> Self {
        Self { status: 200, body: vec![8, if allowed { 1 } else { 2 }], grpc_status: "0", closes: false }
    }

    pub(crate) fn http(status: u16) -> Self {
        Self { status, body: b"{}".to_vec(), grpc_status: "", closes: false }
    }
}

type Decide = dyn Fn(&str) -> Reply + Send + Sync;

/// How the server is built.
pub(crate) struct Setup {
    pub(crate) http2: Option<http2::Builder<Local>>,
    pub(crate) unix: Option<PathBuf>,
    /// Given the text of the key.
    pub(crate) decide: Arc<Decide>,
}

impl Setup {
    pub(crate) fn grpc(decide: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let mut http2 = http2::Builder::new(Local);
        http2.timer(TokioTimer::new());
        Self { http2: Some(http2), unix: None, decide: Arc::new(decide) }
    }

    pub(crate) fn http(decide: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self { http2: None, unix: None, decide: Arc::new(decide) }
    }
}

/// A server on a thread of its own; ends when dropped.
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    seen: Arc<Mutex<HashMap<String, u64>>>,
    restart: watch::Sender<u64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(setup: Setup) -> Self {
        let (endpoint_out, endpoint_in) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let (restart, restarted) = watch::channel(0);
        let seen = Arc::new(Mutex::new(HashMap::new()));
        let seen_by_server = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                let listener = Listener::bind(setup.unix.as_ref()).await;
                endpoint_out.send(listener.endpoint()).unwrap();
                let server = Rc::new((setup, seen_by_server));
                tokio::select! {
                    () = accept(listener, server, restarted) => {}
                    _ = stopped => {}
                }
            });
        });
        let endpoint = endpoint_in.recv().unwrap();
        Self { endpoint, seen, restart, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the number of requests for each key.
    pub(crate) fn seen(&self) -> HashMap<String, u64> {
        self.seen.lock().clone()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.seen().values().sum()
    }

    /// Lets the connections open now finish gracefully; new ones are served as by a successor.
    pub(crate) fn restarter(&self) -> watch::Sender<u64> {
        self.restart.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    async fn bind(unix: Option<&PathBuf>) -> Self {
        match unix {
            Some(path) => Self::Unix(UnixListener::bind(path).unwrap(), path.clone()),
            None => Self::Tcp(TcpListener::bind("127.0.0.1:0").await.unwrap()),
        }
    }

    fn endpoint(&self) -> Endpoint {
        match self {
            Self::Tcp(listener) => Endpoint::Tcp(listener.local_addr().unwrap()),
            Self::Unix(_, path) => Endpoint::Unix(path.clone()),
        }
    }
}

type Shared = Rc<(Setup, Arc<Mutex<HashMap<String, u64>>>)>;

async fn accept(listener: Listener, server: Shared, restarted: watch::Receiver<u64>) {
    loop {
        let (server, mut restarted) = (Rc::clone(&server), restarted.clone());
        restarted.mark_unchanged();
        match &listener {
            Listener::Tcp(listener) => {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                tokio::task::spawn_local(serve(socket, server, restarted));
            }
            Listener::Unix(listener, _) => {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::task::spawn_local(serve(socket, server, restarted));
            }
        }
    }
}

async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    server: Shared,
    mut restarted: watch::Receiver<u64>,
) {
    let answering = Rc::clone(&server);
    let service = service_fn(move |request| answer(request, Rc::clone(&answering)));
    // Both kinds of connection have the same methods and no trait in common.
    macro_rules! serve {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                _ = restarted.changed() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        }};
    }
    if let Some(http2) = &server.0.http2 {
        serve!(http2.serve_connection(TokioIo::new(socket), service));
    } else {
        let mut http1 = http1::Builder::new();
        serve!(http1.timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service));
    }
}

async fn answer(request: Request<Incoming>, server: Shared) -> Result<Response<Parts>, hyper::Error> {
    let query = request.uri().query().unwrap_or_default().as_bytes().to_vec();
    let body = [query, request.into_body().collect().await?.to_bytes().to_vec()].concat();
    let key = key_in(&body);
    *server.1.lock().entry(key.clone()).or_default() += 1;
    let reply = (server.0.decide)(&key);
    let is_grpc = server.0.http2.is_some();
    let body = if is_grpc { message(&reply.body) } else { reply.body };
    let trailers = is_grpc.then(|| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static(reply.grpc_status));
        trailers.insert("grpc-message", HeaderValue::from_static("said the server"));
        trailers
    });
    let mut response = Response::new(Parts { body: Some(body.into()), trailers });
    if reply.closes {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    *response.status_mut() = reply.status.try_into().unwrap();
    Ok(response)
}

/// A gRPC message with its prefix.
fn message(bytes: &[u8]) -> Vec<u8> {
    [&[0], &(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// Returns the key, such as `user-00000042`, wherever it is in the bytes.
fn key_in(body: &[u8]) -> String {
    let at = body.windows(5).rposition(|window| window == b"user-").unwrap();
    String::from_utf8(body[at..at + 13].to_vec()).unwrap()
}

/// A body with trailers.
struct Parts {
    body: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.body.take().map(Frame::data);
        Poll::Ready(frame.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }
}

/// Runs the tasks of hyper on this thread.
#[derive(Clone)]
pub(crate) struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async move {
            task.await;
        });
    }
}
