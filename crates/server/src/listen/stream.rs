//! The byte stream of a connection, and the activity that the watchdog checks.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tidegate_http2::MemoryClaim;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

/// The first bytes of every HTTP/2 connection.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes that a client has to read within the timeout while HTTP/2 responses wait to be sent.
const PROGRESS_BYTES: u64 = 16 << 10;

/// An accepted connection that is not registered with a runtime yet.
pub enum Stream {
    /// A TCP connection.
    Tcp(std::net::TcpStream),
    /// A connection on a Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

/// A connection that is registered with the runtime that serves it.
pub enum Io {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection on a Unix socket.
    Unix(UnixStream),
    /// TLS over one of the others.
    Tls(Box<TlsStream<Self>>),
}

/// The activity of one connection. It is updated by one thread only, so the atomics are cheap.
#[derive(Debug)]
pub struct Activity {
    /// The time origin of `active_us`.
    base: Instant,
    /// When a request last began or ended, in microseconds since `base`.
    active_us: AtomicU64,
    /// Requests whose headers have arrived.
    started: AtomicU64,
    /// Requests that have been handled.
    finished: AtomicU64,
    /// Bytes that have arrived.
    bytes: AtomicU64,
    /// Bytes that had arrived when the last request began.
    bytes_at_begin: AtomicU64,
    /// How many of the first bytes match the preface of HTTP/2.
    preface_bytes: AtomicUsize,
    /// Whether the last write is blocked because the client does not read.
    stuck: AtomicBool,
    /// How often a blocked client started to read again.
    unstuck: AtomicU64,
    /// Number of HTTP/2 responses that wait to be sent.
    responses: AtomicUsize,
    /// Number of responses that have been sent.
    responses_sent: AtomicU64,
    /// Bytes that have been written.
    written: AtomicU64,
    /// Whether `response` holds memory.
    holds_response: AtomicBool,
    /// The memory claim of an HTTP/1 response that waits to be sent.
    response: Mutex<Option<MemoryClaim>>,
    /// Bytes that may still be read in this turn.
    readable: AtomicUsize,
    /// Whether a read was postponed to the next turn.
    put_off: AtomicBool,
}

/// Counts a request as finished when it is dropped.
pub struct InFlight<'a>(&'a Activity);

/// The byte stream of a connection, which records its activity.
pub struct WatchedIo {
    io: Io,
    activity: Arc<Activity>,
}

impl Stream {
    /// Registers the connection with the current runtime.
    ///
    /// # Errors
    /// If the runtime cannot register it.
    pub fn into_io(self) -> io::Result<Io> {
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Io::Tcp),
            Self::Unix(stream) => UnixStream::from_std(stream).map(Io::Unix),
        }
    }
}

impl Io {
    /// Returns the IP address of the client; 127.0.0.1 for a Unix socket.
    pub fn peer(&self) -> IpAddr {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match self {
            Self::Tcp(stream) => stream.peer_addr().map_or(local, |address| address.ip()),
            Self::Unix(_) => local,
            Self::Tls(stream) => stream.get_ref().0.peer(),
        }
    }
}

impl Activity {
    /// Returns the activity of a connection that is opened now. Its times count from `base`.
    pub fn new(base: Instant) -> Self {
        let activity = Self {
            base,
            active_us: AtomicU64::new(0),
            started: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_at_begin: AtomicU64::new(0),
            preface_bytes: AtomicUsize::new(0),
            stuck: AtomicBool::new(false),
            unstuck: AtomicU64::new(0),
            responses: AtomicUsize::new(0),
            responses_sent: AtomicU64::new(0),
            written: AtomicU64::new(0),
            holds_response: AtomicBool::new(false),
            response: Mutex::default(),
            readable: AtomicUsize::new(usize::MAX),
            put_off: AtomicBool::new(false),
        };
        activity.touch();
        activity
    }

    /// Notes that a request begins or ends now.
    fn touch(&self) {
        self.active_us.store(self.base.elapsed().as_micros() as u64, Relaxed);
    }

    /// Returns when a request last began or ended, in microseconds since the base; at first, when the connection was
    /// opened.
    pub fn active_us(&self) -> u64 {
        self.active_us.load(Relaxed)
    }

    /// Records how many requests a connection has had, and how many of them are in progress, for a server that counts
    /// them itself.
    pub fn note_requests(&self, requests: u64, open: usize) {
        let finished = requests.saturating_sub(open as u64);
        // No other code writes these counters on such a connection.
        if (self.started(), self.finished()) != (requests, finished) {
            self.started.store(requests, Relaxed);
            self.finished.store(finished, Relaxed);
            self.touch();
        }
    }

    /// Begins a turn in which `bytes` bytes may be read.
    pub fn start_turn(&self, bytes: usize) {
        self.readable.store(bytes, Relaxed);
        self.put_off.store(false, Relaxed);
    }

    /// Returns how many bytes may still be read in this turn, and whether a read was postponed to the next.
    pub fn turn(&self) -> (usize, bool) {
        (self.readable.load(Relaxed), self.put_off.load(Relaxed))
    }

    /// Notes that a request begins.
    #[inline]
    pub fn begin(&self) -> InFlight<'_> {
        self.started.fetch_add(1, Relaxed);
        self.touch();
        self.bytes_at_begin.store(self.bytes(), Relaxed);
        InFlight(self)
    }

    /// Returns how many requests have begun.
    pub fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Returns how many requests have been handled.
    pub fn finished(&self) -> u64 {
        self.finished.load(Relaxed)
    }

    /// Returns how many requests are in progress.
    pub fn in_flight(&self) -> u64 {
        self.started().saturating_sub(self.finished.load(Relaxed))
    }

    /// Returns how many bytes have arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns whether bytes have arrived since the last request began.
    pub fn bytes_since_begin(&self) -> bool {
        self.bytes() > self.bytes_at_begin.load(Relaxed)
    }

    /// Returns whether the connection uses HTTP/2, where bytes may arrive that belong to no request.
    pub fn multiplexed(&self) -> bool {
        self.preface_bytes.load(Relaxed) == PREFACE.len()
    }

    /// Returns `None` if no output waits for the client; otherwise a number that changes when the client makes
    /// progress. Over HTTP/2 a client may read other frames or grant a few bytes at a time, so there it has to read a
    /// certain amount.
    pub fn stuck(&self) -> Option<u64> {
        if self.responses.load(Relaxed) > 0 {
            let progress = self.written.load(Relaxed) / PROGRESS_BYTES;
            return Some(self.responses_sent.load(Relaxed).wrapping_add(progress));
        }
        self.stuck.load(Relaxed).then(|| self.unstuck.load(Relaxed))
    }

    /// Records an HTTP/2 response that waits to be sent.
    pub fn note_response(&self) {
        self.responses.fetch_add(1, Relaxed);
    }

    /// Records that an HTTP/2 response was sent or dropped.
    pub fn note_response_sent(&self) {
        self.responses.fetch_sub(1, Relaxed);
        self.responses_sent.fetch_add(1, Relaxed);
    }

    /// Holds the memory claim of an HTTP/1 response until it is sent.
    pub fn hold_response(&self, claim: MemoryClaim) {
        *self.response.lock() = Some(claim);
        self.holds_response.store(true, Relaxed);
    }

    /// Releases the memory of a response once all output is flushed.
    #[inline]
    fn note_flush<T>(&self, flushed: &Poll<T>) {
        if flushed.is_ready() && self.holds_response.load(Relaxed) {
            self.holds_response.store(false, Relaxed);
            drop(self.response.lock().take());
        }
    }

    #[inline]
    fn note_read(&self, bytes: &[u8]) {
        let before = self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        if before < PREFACE.len() as u64 {
            self.match_preface(before as usize, bytes);
        }
    }

    #[cold]
    fn match_preface(&self, before: usize, bytes: &[u8]) {
        let alike = PREFACE[before..].iter().zip(bytes).take_while(|(ours, theirs)| ours == theirs).count();
        if self.preface_bytes.load(Relaxed) == before {
            self.preface_bytes.store(before + alike, Relaxed);
        }
    }

    #[inline]
    fn note_written(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = polled {
            self.written.fetch_add(*written as u64, Relaxed);
        }
    }

    #[inline]
    fn note_write<T>(&self, written: &Poll<T>) {
        if written.is_pending() {
            self.stuck.store(true, Relaxed);
        } else if self.stuck.load(Relaxed) {
            self.stuck.store(false, Relaxed);
            self.unstuck.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.finished.fetch_add(1, Relaxed);
        self.0.touch();
        // Bytes of the body are not the start of another request.
        self.0.bytes_at_begin.store(self.0.bytes(), Relaxed);
    }
}

impl WatchedIo {
    /// Wraps a stream so that its activity is recorded.
    pub fn new(io: Io, activity: Arc<Activity>) -> Self {
        Self { io, activity }
    }
}

impl AsyncRead for WatchedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let readable = self.activity.readable.load(Relaxed);
        if readable == 0 {
            // The caller that began the turn polls again in the next one.
            self.activity.put_off.store(true, Relaxed);
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        if readable < usize::MAX {
            self.activity.readable.store(readable.saturating_sub(read), Relaxed);
        }
        self.activity.note_read(&buf.filled()[before..]);
        polled
    }
}

impl AsyncWrite for WatchedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.activity.note_write(&polled);
        self.activity.note_written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.activity.note_write(&polled);
        self.activity.note_written(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// Over TLS, bytes are written here.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.activity.note_write(&polled);
        self.activity.note_flush(&polled);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Calls a method on the stream in an [`Io`].
macro_rules! each {
    ($io:expr, $method:ident($($argument:expr),*)) => {
        match $io {
            Io::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Io::Unix(stream) => Pin::new(stream).$method($($argument),*),
            Io::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(&mut *self, poll_read(cx, buf))
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(&mut *self, poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(&mut *self, poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, poll_shutdown(cx))
    }
}
