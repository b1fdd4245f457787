//! A connection's bytes, and what the watchdog sees of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// What begins every HTTP/2 connection.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection on its way to a worker.
pub enum Stream {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// A Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

/// A connection on the runtime that serves it.
pub enum Io {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS on either.
    Tls(Box<TlsStream<Self>>),
}

/// Signs of life of one connection. Its parts all run on one thread: the atomics cost next to
/// nothing.
#[derive(Debug, Default)]
pub struct Pulse {
    /// Requests whose headers have been read.
    started: AtomicU64,
    /// Requests that have been answered.
    finished: AtomicU64,
    /// Bytes that have come.
    bytes: AtomicU64,
    /// Bytes that had come when the last request began.
    bytes_at_begin: AtomicU64,
    /// How many of the first bytes are those of HTTP/2.
    of_preface: AtomicUsize,
    /// Whether the other side takes nothing of what is to be sent.
    stuck: AtomicBool,
    /// How often it was so, and then took something.
    unstuck: AtomicU64,
}

/// Counts a request as finished, whatever becomes of it.
pub struct InFlight<'a>(&'a Pulse);

/// The bytes of a connection, watched.
pub struct Watched {
    io: Io,
    pulse: Arc<Pulse>,
}

impl Stream {
    /// Brings the connection to the runtime this runs on.
    ///
    /// # Errors
    /// If the runtime cannot take it.
    pub fn into_io(self) -> io::Result<Io> {
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Io::Tcp),
            Self::Unix(stream) => UnixStream::from_std(stream).map(Io::Unix),
        }
    }
}

impl Io {
    /// Who is at the other end. Whoever comes by a Unix socket is on this machine.
    pub fn peer(&self) -> IpAddr {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match self {
            Self::Tcp(stream) => stream.peer_addr().map_or(local, |address| address.ip()),
            Self::Unix(_) => local,
            Self::Tls(stream) => stream.get_ref().0.peer(),
        }
    }
}

impl Pulse {
    /// Notes that a request begins.
    #[inline]
    pub fn begin(&self) -> InFlight<'_> {
        self.started.fetch_add(1, Relaxed);
        self.bytes_at_begin.store(self.bytes(), Relaxed);
        InFlight(self)
    }

    /// Requests that have begun.
    pub fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Requests that have been answered.
    pub fn finished(&self) -> u64 {
        self.finished.load(Relaxed)
    }

    /// Requests being answered now.
    pub fn in_flight(&self) -> u64 {
        self.started().saturating_sub(self.finished.load(Relaxed))
    }

    /// Bytes that have come.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Whether any have come since the last request began: of the next one, or of nothing.
    pub fn bytes_since_begin(&self) -> bool {
        self.bytes() > self.bytes_at_begin.load(Relaxed)
    }

    /// Whether HTTP/2 is spoken: then bytes may come that belong to no request.
    pub fn multiplexed(&self) -> bool {
        self.of_preface.load(Relaxed) == PREFACE.len()
    }

    /// If the other side takes nothing of what is to be sent: a number that changes once it does.
    pub fn stuck(&self) -> Option<u64> {
        self.stuck.load(Relaxed).then(|| self.unstuck.load(Relaxed))
    }

    #[inline]
    fn came(&self, bytes: &[u8]) {
        let before = self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        if before < PREFACE.len() as u64 {
            self.began(before as usize, bytes);
        }
    }

    #[cold]
    fn began(&self, before: usize, bytes: &[u8]) {
        let alike = PREFACE[before..].iter().zip(bytes).take_while(|(ours, theirs)| ours == theirs).count();
        if self.of_preface.load(Relaxed) == before {
            self.of_preface.store(before + alike, Relaxed);
        }
    }

    #[inline]
    fn went<T>(&self, written: &Poll<T>) {
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
        // The body is not the beginning of another request.
        self.0.bytes_at_begin.store(self.0.bytes(), Relaxed);
    }
}

impl Watched {
    /// Watches a connection.
    pub fn new(io: Io, pulse: Arc<Pulse>) -> Self {
        Self { io, pulse }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.pulse.came(&buf.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.pulse.went(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.pulse.went(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// Over TLS this is where bytes go out.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.pulse.went(&polled);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Calls a method on whichever stream it is.
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
