//! Serves a connection on a socket.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::budget::MemoryBudget;
use crate::connection::{Connection, Fault, Settings};
use crate::service::Service;
use crate::turns::{Turn, yield_now};

/// Size of the input buffer: room for the rest of the last turn and one more read. That is hundreds of requests, or
/// one frame of maximum length.
const INPUT_BYTES: usize = 2 * READ_BYTES + (1 << 10);
/// Maximum bytes of one read, about as many as one turn processes.
const READ_BYTES: usize = 16 << 10;
/// An output buffer larger than this is freed after use.
const KEPT_BYTES: usize = 32 << 10;
/// How long a client may take to read the last responses, and then to close.
const FAREWELL: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_secs(1);
/// Maximum reads in a row while waiting for the client to close; the input is discarded.
const LINGER_READS: usize = 8;

thread_local! {
    /// The input buffer, shared by the connections of a thread, so that an idle connection holds no buffer.
    static INPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reasons a connection ended early.
#[derive(Debug, Error)]
pub enum Error {
    /// Reading or writing the socket failed.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The client violated the protocol or a limit.
    #[error("the client was sent away: {0}")]
    Fault(Fault),
}

/// A connection on a socket. The future completes when the connection has ended.
pub struct Server<IO, S: Service> {
    io: IO,
    connection: Connection<S>,
    /// An incomplete frame, and any frames before it that were left for the next turn.
    rest: Vec<u8>,
    /// Whether `rest` holds complete frames that were left for the next turn.
    behind: bool,
    timer: Option<Pin<Box<Sleep>>>,
    phase: Phase,
    turn: Turn,
    watcher: Option<Watcher>,
}

/// Called with the number of requests started since the connection was opened, and the number of those that are open.
/// Streamed calls ([`Service::call`]) are not in the second number, because a client may keep them open for any time.
type Watcher = Box<dyn Fn(u64, usize) + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The connection ends once the output is written.
    Closing,
    /// Our side is closed, and the client's is not. Closing the socket now could discard the last responses.
    Lingering,
}

/// The result of a turn.
enum Turned {
    /// Nothing can be done until the client reads or sends, or the service responds.
    Waits,
    /// There is more to do in the next turn.
    HasMore,
    /// No more input will arrive.
    Ended,
}

impl<IO: AsyncRead + AsyncWrite + Unpin, S: Service> Server<IO, S> {
    /// Creates a server for a new connection. Must be called in a tokio runtime with time enabled.
    pub fn new(io: IO, service: S, settings: Settings) -> Self {
        let connection = Connection::new(service, settings, Instant::now());
        let (phase, turn) = (Phase::Open, Turn::default());
        Self { io, connection, rest: Vec::new(), behind: false, timer: None, phase, turn, watcher: None }
    }

    /// Sets a callback for request counts: requests started since the connection was opened, and collected requests
    /// that are open. It is called before the client can read a response, and at the end of each turn.
    #[must_use]
    pub fn watched_by(mut self, watcher: impl Fn(u64, usize) + Send + 'static) -> Self {
        self.watcher = Some(Box::new(watcher));
        self
    }

    /// Sets the budget for bodies, calls and responses, which connections share.
    #[must_use]
    pub fn with_budget(mut self, budget: MemoryBudget) -> Self {
        self.connection = self.connection.with_budget(budget);
        self
    }

    /// Starts a graceful shutdown. The future must be polled again afterwards.
    pub fn graceful_shutdown(&mut self) {
        self.connection.graceful_shutdown();
    }

    fn report(&self) {
        if let Some(watcher) = &self.watcher {
            watcher(self.connection.requests(), self.connection.collected_streams());
        }
    }

    /// Writes the pending output.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.connection.has_output() {
            self.report();
        }
        while self.connection.has_output() {
            let out = self.connection.out();
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, out))?;
            self.connection.note_write(written);
            let out = self.connection.out();
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            if written < out.len() {
                out.drain(..written);
                continue;
            }
            out.clear();
            out.shrink_to(KEPT_BYTES);
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once and processes the input. Returns the number of bytes read.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.behind && self.phase == Phase::Open {
            return Poll::Ready(Ok(self.take_rest()));
        }
        let mut input = INPUT.take();
        input.resize(INPUT_BYTES, 0);
        let before = self.rest.len();
        input[..before].copy_from_slice(&self.rest);
        let mut buffer = ReadBuf::new(&mut input[before..][..READ_BYTES]);
        let polled = Pin::new(&mut self.io).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len());
        if let Poll::Ready(Ok(bytes @ 1..)) = polled
            && self.phase == Phase::Open
        {
            let input = &input[..before + bytes];
            let taken = self.connection.receive(input, Instant::now());
            self.rest.clear();
            self.rest.extend_from_slice(&input[taken..]);
            self.behind = self.connection.turn_is_over() && taken < input.len();
        }
        INPUT.set(input);
        polled
    }

    /// Processes what an earlier turn left. Returns the number of bytes consumed.
    fn take_rest(&mut self) -> usize {
        let before = self.rest.len();
        let taken = self.connection.receive(&self.rest, Instant::now());
        self.rest.drain(..taken);
        if self.rest.is_empty() {
            self.rest.shrink_to(KEPT_BYTES);
        }
        self.behind = self.connection.turn_is_over() && taken < before;
        before
    }

    /// Runs the timers that are due, and registers the task for the next one.
    fn poll_timer(&mut self, cx: &mut Context<'_>) {
        loop {
            let Some(at) = self.connection.wake_at() else { return };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
            // A timer that fires early is harmless, a late one is not.
            if timer.deadline() > at {
                timer.as_mut().reset(at);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            self.connection.on_time(Instant::now());
            if let Some(next) = self.connection.wake_at() {
                timer.as_mut().reset(next);
            }
        }
    }

    /// Serves the connection for one turn.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let work = ready!(self.turn.begin(cx));
        self.connection.start_turn(work);
        let turned = self.take_turn(cx);
        let more = matches!(turned, Ok(Turned::HasMore));
        self.report();
        self.turn.end(self.connection.work_done(), more, cx);
        match turned {
            Ok(Turned::Waits | Turned::HasMore) => Poll::Pending,
            Ok(Turned::Ended) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Reads, processes and writes until there is nothing to do or the turn is over.
    fn take_turn(&mut self, cx: &mut Context<'_>) -> io::Result<Turned> {
        loop {
            let written = self.poll_write(cx)?;
            if self.connection.is_over() {
                return Ok(Turned::Ended);
            }
            self.poll_timer(cx);
            if written.is_pending() && self.connection.is_full() && !self.connection.is_over() {
                // No input is read from a client that does not read its responses.
                return Ok(Turned::Waits);
            }
            if !self.connection.turn_is_over() {
                self.connection.poll(cx);
            }
            if self.connection.turn_is_over() && !self.connection.is_over() {
                if written.is_ready() && self.connection.has_output() {
                    let _ = self.poll_write(cx)?;
                }
                return Ok(Turned::HasMore);
            }
            match self.poll_read(cx)? {
                Poll::Ready(0) => return Ok(Turned::Ended),
                Poll::Ready(_) => {}
                Poll::Pending if written.is_ready() && self.connection.has_output() => {}
                Poll::Pending if self.connection.is_over() => {}
                Poll::Pending => return Ok(Turned::Waits),
            }
        }
    }

    /// Writes the remaining output, closes our side and waits for the client to close its own.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.phase == Phase::Closing {
            ready!(self.poll_write(cx))?;
            ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
            self.enter(Phase::Lingering, LINGER);
        }
        for _ in 0..LINGER_READS {
            if ready!(self.poll_read(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        yield_now(cx);
        Poll::Pending
    }

    fn enter(&mut self, phase: Phase, patience: Duration) {
        self.phase = phase;
        self.rest = Vec::new();
        self.timer = Some(Box::pin(tokio::time::sleep(patience)));
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin, S: Service> Future for Server<IO, S>
where
    Self: Unpin,
{
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.phase == Phase::Open {
            ready!(this.poll_open(cx))?;
            this.enter(Phase::Closing, FAREWELL);
        }
        let closed = this.poll_close(cx);
        let waited = this.timer.as_mut().is_none_or(|timer| timer.as_mut().poll(cx).is_ready());
        if closed.is_pending() && !waited {
            return Poll::Pending;
        }
        // The connection is closed or out of time, so a socket error no longer matters.
        Poll::Ready(this.connection.fault().map_or(Ok(()), |fault| Err(Error::Fault(fault))))
    }
}
