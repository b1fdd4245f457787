//! Serves one connection, from the TLS handshake until it is closed.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tidegate_http2::{MemoryBudget, Turn};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::Instrument;

use super::connections::Entry;
use super::listener::{OpenListener, Protocols};
use super::response::{self, HeldBody};
use super::stream::{Activity, Io, Stream, WatchedIo};
use super::watchdog::{Action, Watchdog};
use crate::trace;

/// Maximum number of streams that a client may reset before they are accepted; beyond it the connection is closed.
const MAX_RESET_STREAMS: usize = 64;
/// The smallest buffer size that hyper accepts.
const LEAST_BUFFER_BYTES: usize = 8192;
/// Maximum concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 100;
/// Flow control window of an HTTP/2 stream, in bytes.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Flow control window of an HTTP/2 connection, in bytes.
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Maximum bytes of a response that hyper buffers until the client reads them.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 100;
/// Bytes that a connection may read per unit of work in its turn: about the cost of a typical request.
const BYTES_PER_WORK: usize = 32;
/// How often an idle HTTP/2 connection is pinged, and how long it may take to respond.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A connection that is ready to be served: TLS is established, and its activity is tracked.
pub struct Connection<'c> {
    /// The stream of the connection.
    pub io: WatchedIo,
    /// The IP address of the client; 127.0.0.1 on a Unix socket.
    pub peer: IpAddr,
    activity: &'c Arc<Activity>,
    listener: &'c OpenListener,
}

/// Removes a connection from its table and counts it as closed when dropped.
struct Closing<'a>(&'a OpenListener, &'a Entry);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.connections.remove(self.1);
        self.0.metrics.connections.closed.add(1);
    }
}

/// Serves a connection that was admitted, until it ends.
pub async fn serve(stream: Stream, entry: &Entry, listener: &OpenListener) {
    let _closing = Closing(listener, entry);
    tokio::select! {
        biased;
        served = try_serve(stream, &entry.activity, listener) => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection failed");
            }
        }
        () = entry.evicted() => tracing::debug!("a connection was closed for a new one"),
    }
}

async fn try_serve(stream: Stream, activity: &Arc<Activity>, listener: &OpenListener) -> io::Result<()> {
    let io = match &listener.certificates {
        None => stream.into_io()?,
        Some(certificates) => {
            let handshake = TlsAcceptor::from(certificates.current()).accept(stream.into_io()?);
            let Ok(secured) = timeout(listener.timeouts.handshake, handshake).await else {
                listener.metrics.connections.timed_out.add(1);
                return Ok(());
            };
            Io::Tls(Box::new(secured?))
        }
    };
    let peer = io.peer();
    let io = WatchedIo::new(io, Arc::clone(activity));
    listener.listener.api.serve(Connection { io, peer, activity, listener }).await;
    Ok(())
}

/// Handles HTTP requests.
pub trait HttpService: Clone + Send + Sync + 'static {
    /// The body type of the responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Default
        + Send
        + Unpin
        + 'static;

    /// Returns the memory budget of the responses.
    fn budget(&self) -> &MemoryBudget;

    /// Handles a request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send;
}

impl Connection<'_> {
    /// Serves HTTP/1.1 and HTTP/2 until the connection ends.
    pub async fn serve_http(self, service: &impl HttpService) {
        let Self { io, activity, listener, .. } = self;
        let builder = http_builder(listener.header_bytes);
        let service = hyper_service(service, activity, listener.listener.traced);
        let connection = builder.serve_connection(TokioIo::new(io), service);
        let mut turn = Turn::default();
        let poll =
            |connection: Pin<&mut _>, cx: &mut Context<'_>| poll_in_turn(connection, &mut turn, activity, cx);
        drive(pin!(connection), poll, auto::Connection::graceful_shutdown, listener, activity).await;
    }

    /// Serves the connection with a custom server, which `start` creates from the stream, until the connection ends.
    /// The server must take its own turns and report its requests to the [`Activity`].
    pub async fn serve_with<C, E: Display>(
        self,
        start: impl FnOnce(WatchedIo, Arc<Activity>) -> C,
        graceful_shutdown: impl Fn(Pin<&mut C>),
    ) where
        C: Future<Output = Result<(), E>>,
    {
        let Self { io, activity, listener, .. } = self;
        let connection = pin!(start(io, Arc::clone(activity)));
        drive(
            connection,
            |connection: Pin<&mut C>, cx: &mut Context<'_>| connection.poll(cx),
            graceful_shutdown,
            listener,
            activity,
        )
        .await;
    }
}

/// Polls a connection that reads all available input, limited to the bytes of its turn.
fn poll_in_turn<C: Future>(
    connection: Pin<&mut C>,
    turn: &mut Turn,
    activity: &Activity,
    cx: &mut Context<'_>,
) -> Poll<C::Output> {
    let allowed = ready!(turn.begin(cx)) as usize * BYTES_PER_WORK;
    activity.start_turn(allowed);
    let polled = connection.poll(cx);
    let (left, put_off) = activity.turn();
    let work = u32::try_from((allowed - left) / BYTES_PER_WORK).unwrap_or(u32::MAX);
    turn.end(work, put_off && polled.is_pending(), cx);
    polled
}

/// A response whose memory is counted.
type HeldResponse<A> = Response<HeldBody<<A as HttpService>::Body>>;

/// Returns a hyper service that counts requests in the activity. Only the requests of one connection share it, so
/// threads do not contend for its reference count.
fn hyper_service<A: HttpService>(
    api: &A,
    activity: &Arc<Activity>,
    traced: bool,
) -> impl Service<
    Request<Incoming>,
    Response = HeldResponse<A>,
    Error = Infallible,
    Future: Future<Output = Result<HeldResponse<A>, Infallible>> + Send + 'static,
> + use<A> {
    let shared = Arc::new((api.clone(), Arc::clone(activity)));
    service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move {
            let (api, activity) = &*shared;
            let _in_flight = activity.begin();
            if request.headers().len() > MAX_HEADERS {
                return Ok(too_many_headers());
            }
            let version = request.version();
            let response = if traced {
                let span = trace::span(&request);
                let response = api.answer(request).instrument(span.clone()).await;
                trace::http_status(&span, response.status());
                response
            } else {
                api.answer(request).await
            };
            Ok(response::hold(response, version, api.budget(), activity))
        }
    })
}

/// Returns the response for a request with too many headers. hyper enforces this limit for HTTP/1 only.
fn too_many_headers<B: Default>() -> Response<HeldBody<B>> {
    let mut response = Response::new(HeldBody::empty());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response
}

fn http_builder(header_bytes: usize) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The watchdog enforces the header timeout: a timer for every request would cost more.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        // A client that closes its write side after the request still gets its response.
        .half_close(true)
        .max_buf_size(header_bytes.max(LEAST_BUFFER_BYTES))
        // Responses are small: one buffer is sent sooner than several. Each is sent before the next request is read
        // (no `pipeline_flush`): the bytes that follow may be broken or incomplete.
        .writev(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    builder
}

/// Drives a connection until it ends, and closes it when a timeout or an eviction requires it.
async fn drive<C, E: Display>(
    mut connection: Pin<&mut C>,
    mut poll: impl FnMut(Pin<&mut C>, &mut Context<'_>) -> Poll<Result<(), E>>,
    graceful_shutdown: impl Fn(Pin<&mut C>),
    listener: &OpenListener,
    activity: &Activity,
) where
    C: Future<Output = Result<(), E>>,
{
    let mut drain = listener.drain.clone();
    let mut drained = pin!(drain.wait_for(|drain| *drain));
    let http2_only = listener.listener.protocols == Protocols::Http2;
    let mut watchdog = Watchdog::new(listener.timeouts, http2_only, Instant::now());
    let mut next_check = pin!(sleep_until(watchdog.next()));
    let mut draining = false;
    loop {
        tokio::select! {
            biased;
            ended = poll_fn(|cx| poll(connection.as_mut(), cx)) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            () = next_check.as_mut() => match watchdog.check(activity, Instant::now()) {
                Action::Continue => {}
                Action::ShutDown => graceful_shutdown(connection.as_mut()),
                Action::Close => {
                    listener.metrics.connections.timed_out.add(1);
                    return;
                }
            },
            // An error means that the sender was dropped because the service has ended.
            _ = drained.as_mut(), if !draining => {
                draining = true;
                graceful_shutdown(connection.as_mut());
            }
        }
        next_check.as_mut().reset(watchdog.next());
    }
}
