//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tidegate_http2::{Server, Settings};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::Instrument;

use super::guests::{Guest, Guests};
use super::stream::{Io, Pulse, Stream, Watched};
use super::tls::Certificates;
use super::watchdog::{Finding, Patience, Watchdog};
use crate::admin::AdminApi;
use crate::body;
use crate::config::settings::Grpc;
use crate::grpc::GrpcApi;
use crate::http::HttpApi;
use crate::memory::Memory;
use crate::metrics::{Connections, Metrics};
use crate::trace;

/// Streams that were reset before they were accepted: more of them, and the connection goes.
const MAX_RESET_STREAMS: usize = 64;
/// The least buffer hyper works with.
const LEAST_BUFFER_BYTES: usize = 8192;
/// Requests at once on one HTTP/2 connection of the HTTP and admin listeners.
const MAX_STREAMS: u32 = 100;
/// Bytes of bodies that an HTTP/2 client may send ahead: on a stream, and on all of a connection.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of an answer that wait for a client to take them.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Headers of one request to the HTTP and admin listeners.
const MAX_HEADERS: usize = 100;
/// Calls other than `ShouldRateLimit` at once on one connection of the gRPC listener. Each has buffers of its own.
const MAX_CALLS: usize = 256;
/// How often a silent HTTP/2 connection is pinged, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How the connections of a listener are served.
pub struct Serve {
    /// Who answers.
    pub front: Front,
    /// What TLS is spoken with, if it is.
    pub certificates: Option<Arc<Certificates>>,
    /// True once connections are to finish what they have and go.
    pub drain: watch::Receiver<bool>,
    /// How long everything may take.
    pub patience: Patience,
    /// Bytes of one request's headers.
    pub header_bytes: usize,
    /// Connections open on this listener, of which there is a most: one that is full leaves the others alone.
    pub guests: Arc<Guests>,
    /// Whether there is memory for another.
    pub memory: Memory,
    /// Where connections are counted.
    pub metrics: Metrics,
    /// Whether requests are traced.
    pub traced: bool,
}

/// Who answers the requests of a connection.
pub enum Front {
    /// gRPC over HTTP/2, and how it is spoken.
    Grpc(GrpcApi, Grpc),
    /// The HTTP API.
    Http(HttpApi),
    /// The admin API.
    Admin(AdminApi),
}

impl Serve {
    /// Counts a connection in, or sheds it if there are too many, or memory is short. The admin listener goes
    /// on then: it is where one sees why.
    pub fn admit(&self) -> Option<Arc<Guest>> {
        let connections = self.connections();
        connections.accepted.add(1);
        if self.memory.is_full() && !matches!(self.front, Front::Admin(_)) {
            self.memory.note_shed();
            connections.shed.add(1);
            connections.closed.add(1);
            return None;
        }
        let Some((guest, another_leaves)) = self.guests.admit(Instant::now()) else {
            connections.shed.add(1);
            connections.closed.add(1);
            return None;
        };
        connections.shed.add(u64::from(another_leaves));
        Some(guest)
    }

    fn connections(&self) -> &Connections {
        match &self.front {
            Front::Grpc(..) => &self.metrics.grpc_connections,
            Front::Http(_) => &self.metrics.http_connections,
            Front::Admin(_) => &self.metrics.admin_connections,
        }
    }
}

/// Counts a connection out, however it ends.
struct Leaving<'a>(&'a Serve, &'a Guest);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.guests.leave(self.1);
        self.0.connections().closed.add(1);
    }
}

/// Serves a connection that was admitted.
pub async fn serve(stream: Stream, guest: &Guest, how: &Serve) {
    let _leaving = Leaving(how, guest);
    tokio::select! {
        biased;
        served = try_serve(stream, &guest.pulse, how) => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection failed");
            }
        }
        () = guest.asked_to_leave() => tracing::debug!("a connection made room for another"),
    }
}

async fn try_serve(stream: Stream, pulse: &Arc<Pulse>, how: &Serve) -> io::Result<()> {
    let io = match &how.certificates {
        None => stream.into_io()?,
        Some(certificates) => {
            let shaken = TlsAcceptor::from(certificates.current()).accept(stream.into_io()?);
            let Ok(secured) = timeout(how.patience.handshake, shaken).await else {
                how.connections().timed_out.add(1);
                return Ok(());
            };
            Io::Tls(Box::new(secured?))
        }
    };
    let peer = io.peer();
    let io = Watched::new(io, Arc::clone(pulse));
    match &how.front {
        Front::Grpc(api, settings) => {
            let settings = http2_settings(settings, how.header_bytes, api.body_bytes());
            let server = Server::new(io, api.clone(), settings).with_budget(api.budget().clone());
            watch(pin!(server), |server| server.get_mut().graceful_shutdown(), how, pulse).await;
        }
        Front::Http(api) => serve_http(io, &HttpApi { peer, ..api.clone() }, how, pulse).await,
        Front::Admin(api) => serve_http(io, api, how, pulse).await,
    }
    Ok(())
}

async fn serve_http(io: Watched, api: &impl Answer, how: &Serve, pulse: &Arc<Pulse>) {
    let builder = http_builder(how.header_bytes);
    let connection = builder.serve_connection(TokioIo::new(io), service(api, pulse, how.traced));
    watch(pin!(connection), auto::Connection::graceful_shutdown, how, pulse).await;
}

/// Whoever answers requests.
trait Answer: Clone + Send + Sync + 'static {
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Default + Send + 'static;

    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send;
}

impl Answer for HttpApi {
    type Body = crate::http::Body;

    async fn answer(&self, request: Request<Incoming>) -> Response<Self::Body> {
        self.answer(request).await
    }
}

impl Answer for AdminApi {
    type Body = axum::body::Body;

    async fn answer(&self, request: Request<Incoming>) -> Response<Self::Body> {
        self.answer(request).await
    }
}

/// A service whose requests the pulse counts. It is shared by the requests of one connection only,
/// so that threads do not contend for its reference count.
fn service<A: Answer>(
    api: &A,
    pulse: &Arc<Pulse>,
    traced: bool,
) -> impl Service<
    Request<Incoming>,
    Response = Response<A::Body>,
    Error = Infallible,
    Future: Future<Output = Result<Response<A::Body>, Infallible>> + Send + 'static,
> + use<A> {
    let shared = Arc::new((api.clone(), Arc::clone(pulse)));
    service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move {
            let (api, pulse) = &*shared;
            let _in_flight = pulse.begin();
            if request.headers().len() > MAX_HEADERS {
                return Ok(too_many_headers());
            }
            if traced {
                let span = trace::span(&request);
                let response = api.answer(request).instrument(span.clone()).await;
                trace::answered(&span, response.status());
                return Ok(response);
            }
            Ok(api.answer(request).await)
        }
    })
}

/// Over HTTP/1 the bound is hyper's own, and over HTTP/2 it has none.
fn too_many_headers<B: Default>() -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response
}

fn http2_settings(settings: &Grpc, header_bytes: usize, body_bytes: usize) -> Settings {
    Settings {
        max_streams: settings.max_streams,
        header_bytes,
        body_bytes,
        body_patience: body::PATIENCE,
        max_calls: MAX_CALLS,
        keep_alive: settings.keepalive_interval.map(|interval| (interval, settings.keepalive_timeout)),
    }
}

fn http_builder(header_bytes: usize) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Slow headers are the watchdog's business: a timer for every request would cost more than it.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        // A client that has said all it wants still gets its answer.
        .half_close(true)
        .max_buf_size(header_bytes.max(LEAST_BUFFER_BYTES))
        // Answers are small: one buffer is sent sooner than several. Each is sent before the next request
        // is read (no `pipeline_flush`): what follows it may be broken, half of it, or never taken.
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
async fn watch<C, E: Display>(
    mut connection: Pin<&mut C>,
    graceful_shutdown: impl Fn(Pin<&mut C>),
    how: &Serve,
    pulse: &Pulse,
) where
    C: Future<Output = Result<(), E>>,
{
    let mut drain = how.drain.clone();
    let mut drained = pin!(drain.wait_for(|drain| *drain));
    let mut watchdog = Watchdog::new(how.patience, matches!(how.front, Front::Grpc(..)), Instant::now());
    let mut next_look = pin!(sleep_until(watchdog.next()));
    let mut draining = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            () = next_look.as_mut() => match watchdog.look(pulse, Instant::now()) {
                Finding::Fine => {}
                Finding::Ask => graceful_shutdown(connection.as_mut()),
                Finding::Close => {
                    how.connections().timed_out.add(1);
                    return;
                }
            },
            // An error means that the sender is gone, and so is the service.
            _ = drained.as_mut(), if !draining => {
                draining = true;
                graceful_shutdown(connection.as_mut());
            }
        }
        next_look.as_mut().reset(watchdog.next());
    }
}
