//! A connection's bytes, and what the watchdog sees of them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

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
#[derive(Default)]
pub struct Pulse {
    /// Requests whose headers have been read.
    started: AtomicU64,
    /// Requests that have been answered.
    finished: AtomicU64,
    /// Bytes that have come.
    bytes: AtomicU64,
    /// Bytes that had come when the last request began.
    bytes_at_begin: AtomicU64,
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
        self.pulse.bytes.fetch_add((buf.filled().len() - before) as u64, Relaxed);
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
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
