//! One connection from its first byte to its last.

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

/// Streams that were reset before they were accepted: more of them, and the connection is closed.
const MAX_RESET_STREAMS: usize = 64;
/// The smallest buffer that hyper works with.
const LEAST_BUFFER_BYTES: usize = 8192;
/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 100;
/// Bytes of bodies that an HTTP/2 client may send ahead on a stream.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Bytes of bodies that an HTTP/2 client may send ahead on all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of a response that wait for the client to read them.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Headers of one request.
const MAX_HEADERS: usize = 100;
/// Bytes that a connection may read for each unit of work in its turn: about what a request of the usual size takes.
const BYTES_PER_WORK: usize = 32;
/// How often a silent HTTP/2 connection is pinged, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A connection that is ready to be served: TLS is established, and its bytes are watched.
pub struct Connection<'c> {
    /// Its bytes.
    pub io: WatchedIo,
    /// The address of the client. A client on a Unix socket is on this machine.
    pub peer: IpAddr,
    activity: &'c Arc<Activity>,
    listener: &'c OpenListener,
}

/// Counts a connection out, however it ends.
struct Closing<'a>(&'a OpenListener, &'a Entry);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.connections.remove(self.1);
        self.0.metrics.connections.closed.add(1);
    }
}

/// Serves a connection that was admitted.
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

/// Answers HTTP requests.
pub trait HttpService: Clone + Send + Sync + 'static {
    /// The body of its responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Default
        + Send
        + Unpin
        + 'static;

    /// The budget of its responses.
    fn budget(&self) -> &MemoryBudget;

    /// Answers a request.
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

    /// Serves with a server of one's own, which `start` makes of the bytes, until the connection ends. The server takes
    /// its turns by itself, and notes its requests in the activity.
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

/// Polls a connection that reads as much as it finds, within its turn.
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

/// A response whose memory is accounted.
type HeldResponse<A> = Response<HeldBody<<A as HttpService>::Body>>;

/// Returns a service whose requests the activity counts. It is shared by the requests of one connection only, so that
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

/// Over HTTP/1 hyper has the same bound; over HTTP/2 it has none.
fn too_many_headers<B: Default>() -> Response<HeldBody<B>> {
    let mut response = Response::new(HeldBody::empty());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response
}

fn http_builder(header_bytes: usize) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The watchdog ends slow headers: a timer for every request would cost more.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        // A client that closes its side after the request still gets its response.
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

/// Drives a connection until it ends, and ends it when its time has come.
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
            // An error means that the sender is gone, and so is the service.
            _ = drained.as_mut(), if !draining => {
                draining = true;
                graceful_shutdown(connection.as_mut());
            }
        }
        next_check.as_mut().reset(watchdog.next());
    }
}
