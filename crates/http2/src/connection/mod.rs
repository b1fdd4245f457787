//! The HTTP/2 protocol of one connection, without I/O: bytes go in, the service is called, bytes come out.
//!
//! - `requests`, `bodies`: turn frames into calls
//! - `answers`: turns responses into frames
//! - `control`: connection-level frames: SETTINGS, `WINDOW_UPDATE`, PING, GOAWAY

mod answers;
mod bodies;
mod control;
mod requests;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

use crate::Reason;
use crate::budget::MemoryBudget;
use crate::calm::{Calm, NOISE};
use crate::frame::{self, Frame, HEADER_BYTES, PREFACE, kind, setting};
use crate::hpack::{Decoder, Known};
use crate::inbox::Reads;
use crate::service::Service;
use crate::streams::Streams;
use crate::tasks::Tasks;
use crate::windows::{Receiving, Sending};

use self::control::{KeepAlive, Leaving};
use self::requests::{Block, MAX_BLOCK_BYTES, Recent, Remembered};

/// Flow control window of a stream, in bytes. Messages are small.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// With more unsent output than this, in bytes, nothing more is done for the connection until the client reads.
const MAX_OUT_BYTES: usize = 256 << 10;
/// Bytes claimed from the shared budget for a streamed call, besides its body and response: roughly its buffers, its
/// future and one decoded message.
const CALL_BYTES: usize = 24 << 10;

// Work is counted in units of about a quarter of a microsecond, so that turns take about the same time whatever a
// client sends. Every frame costs one unit, plus the cost of what it causes.
/// Bytes of frame payload per unit of work.
const PAYLOAD_BYTES_PER_WORK: usize = 1 << 10;
/// Work of one read from the socket.
const READ_WORK: u32 = 8;
/// Work of one write to the socket.
const WRITE_WORK: u32 = 16;
/// Bytes of a header block per unit of work, if the block must be decoded.
const BLOCK_BYTES_PER_WORK: usize = 8;
/// Work of responding to a request with a collected body.
const ANSWER_WORK: u32 = 4;
/// Bytes of a collected message per unit of work.
const MESSAGE_BYTES_PER_WORK: usize = 32;
/// Work of starting a streamed call, and of each step of it.
const CALL_WORK: u32 = 16;
/// Work of sending a piece of a response that had to wait.
const PIECE_WORK: u32 = 2;
/// Streams per unit of work where all streams are visited.
const STREAMS_PER_WORK: usize = 8;

/// Limits and timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum number of concurrent streams.
    pub max_streams: u32,
    /// Maximum size of a request's headers, in bytes. Headers beyond it are dropped if the service accepts that
    /// ([`Service::takes_cut_head`]); otherwise the request is rejected.
    pub header_bytes: usize,
    /// Maximum size of a collected body, in bytes.
    pub body_bytes: usize,
    /// How long a client may take to send a body, and to grant window for the next bytes of a response.
    pub body_patience: Duration,
    /// Maximum number of concurrent streamed calls ([`Service::call`]), which use more memory than others.
    pub max_calls: usize,
    /// The silence after which the client is pinged, and how long it may take to respond. `None` disables pings.
    pub keep_alive: Option<(Duration, Duration)>,
}

/// A client error that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{why} ({reason})")]
pub struct Fault {
    /// The error code sent in the GOAWAY frame.
    pub reason: Reason,
    /// A description of the error, sent as debug data of the GOAWAY frame.
    pub why: &'static str,
}

impl Fault {
    pub(crate) const fn new(reason: Reason, why: &'static str) -> Self {
        Self { reason, why }
    }

    const fn protocol(why: &'static str) -> Self {
        Self::new(Reason::PROTOCOL_ERROR, why)
    }

    const fn size(why: &'static str) -> Self {
        Self::new(Reason::FRAME_SIZE_ERROR, why)
    }
}

/// How much of the connection preface has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Nothing,
    Preface,
    Settings,
}

/// The server side of one HTTP/2 connection.
pub struct Connection<S: Service> {
    service: S,
    settings: Settings,
    greeting: Greeting,
    decoder: Decoder,
    known: Known<Remembered<S::Call>>,
    streams: Streams<S::Call, S::Body>,
    /// Streams whose bodies have been read since the last check.
    reads: Arc<Reads>,
    /// The memory that all connections share.
    budget: MemoryBudget,
    /// Work done in this turn.
    work: u32,
    /// Work allowed in this turn.
    turn_work: u32,
    /// Number of requests started.
    requests: u64,
    tasks: Tasks<S::Body>,
    sending: Sending,
    receiving: Receiving,
    /// Flow control window of a new stream, in bytes.
    stream_window: u32,
    /// An incomplete header block.
    block: Option<Block>,
    /// The highest stream ID the client has used.
    last_id: u32,
    recent: Recent,
    /// Whether the next header block must announce a dynamic table size of 0.
    drops_table: bool,
    calm: Calm,
    keep_alive: KeepAlive,
    /// When [`Connection::on_time`] must be called next.
    wake_at: Option<Instant>,
    leaving: Leaving,
    fault: Option<Fault>,
    out: Vec<u8>,
}

impl<S: Service> Connection<S> {
    /// Creates the state of a connection that is opened at `now`.
    pub fn new(service: S, settings: Settings, now: Instant) -> Self {
        // A whole body must fit, with room for padding. `Receiving` explains which bytes are held.
        let body_bytes = u32::try_from(settings.body_bytes).unwrap_or(u32::MAX).saturating_mul(2);
        let stream_window = body_bytes.clamp(STREAM_WINDOW_BYTES, frame::MAX_NUMBER);
        let mut out = Vec::new();
        let header_bytes = u32::try_from(settings.header_bytes.max(MAX_BLOCK_BYTES)).unwrap_or(u32::MAX);
        let ours = [
            (setting::MAX_CONCURRENT_STREAMS, settings.max_streams),
            (setting::INITIAL_WINDOW_SIZE, stream_window),
            (setting::MAX_HEADER_LIST_SIZE, header_bytes),
        ];
        frame::write_settings(&mut out, &ours);
        let receiving = Receiving::new(stream_window.max(CONNECTION_WINDOW_BYTES), &mut out);
        let keep_alive = KeepAlive::new(settings.keep_alive, now);
        Self {
            service,
            settings,
            greeting: Greeting::Nothing,
            decoder: Decoder::default(),
            known: Known::default(),
            streams: Streams::new(),
            reads: Arc::default(),
            budget: MemoryBudget::unlimited(),
            work: 0,
            turn_work: u32::MAX,
            requests: 0,
            tasks: Tasks::new(),
            sending: Sending::new(),
            receiving,
            stream_window,
            block: None,
            last_id: 0,
            recent: Recent::default(),
            drops_table: false,
            calm: Calm::new(now),
            wake_at: keep_alive.due(),
            keep_alive,
            leaving: Leaving::No,
            fault: None,
            out,
        }
    }

    /// Sets the budget for bodies, calls and responses, which connections share.
    #[must_use]
    pub fn with_budget(self, budget: MemoryBudget) -> Self {
        Self { budget, ..self }
    }

    /// Starts a turn with `work` units, after which other connections should run. A unit is about a quarter of a
    /// microsecond.
    pub fn start_turn(&mut self, work: u32) {
        (self.work, self.turn_work) = (0, work);
    }

    /// Returns whether the work of this turn is used up. No more input is processed until the next turn.
    pub fn turn_is_over(&self) -> bool {
        self.work >= self.turn_work
    }

    /// Returns the work done in this turn. It exceeds the allowed work if the last operation cost more than was left.
    pub fn work_done(&self) -> u32 {
        self.work
    }

    /// Counts the work of writing `bytes` bytes of output to the socket.
    pub fn note_write(&mut self, bytes: usize) {
        self.charge(WRITE_WORK, bytes / PAYLOAD_BYTES_PER_WORK);
    }

    /// Counts `work` units, plus `more` units that depend on the input.
    fn charge(&mut self, work: u32, more: usize) {
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.work = self.work.saturating_add(work).saturating_add(more);
    }

    /// Processes input and returns how many bytes were consumed. An incomplete frame at the end, and frames beyond
    /// the work of this turn, are not consumed: pass them again, followed by further input.
    pub fn receive(&mut self, input: &[u8], now: Instant) -> usize {
        self.keep_alive.heard(now);
        self.charge(READ_WORK, 0);
        let taken = match self.receive_frames(input, now) {
            Ok(taken) => taken,
            Err(fault) => {
                self.fail(fault);
                input.len()
            }
        };
        if self.streams.len() > 0 {
            let late = now + self.settings.body_patience;
            self.wake_at = Some(self.wake_at.map_or(late, |known| known.min(late)));
        }
        taken
    }

    fn receive_frames(&mut self, input: &[u8], now: Instant) -> Result<usize, Fault> {
        let mut taken = 0;
        if self.fault.is_some() {
            return Ok(input.len());
        }
        if self.greeting == Greeting::Nothing {
            let length = input.len().min(PREFACE.len());
            if input[..length] != PREFACE[..length] {
                return Err(Fault::protocol("this port speaks HTTP/2 only"));
            }
            if length < PREFACE.len() {
                return Ok(0);
            }
            self.greeting = Greeting::Preface;
            taken = length;
        }
        loop {
            if self.turn_is_over() {
                return Ok(taken);
            }
            let too_long = |_| Fault::size("a frame is longer than 16384 bytes");
            let Some(frame) = Frame::parse(&input[taken..]).map_err(too_long)? else { return Ok(taken) };
            taken += HEADER_BYTES + frame.payload.len();
            self.charge(1, frame.payload.len() / PAYLOAD_BYTES_PER_WORK);
            self.take(frame, now)?;
        }
    }

    #[inline]
    fn take(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        if self.greeting != Greeting::Settings {
            if frame.kind != kind::SETTINGS || frame.has(frame::flag::ACK) {
                return Err(Fault::protocol("the first frame must be SETTINGS"));
            }
            self.greeting = Greeting::Settings;
        }
        if self.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err(Fault::protocol("a header block was not continued"));
        }
        match frame.kind {
            kind::DATA => self.take_data(frame, now),
            kind::HEADERS => self.take_headers(frame, now),
            kind::CONTINUATION => self.take_continuation(frame, now),
            kind::RST_STREAM => self.take_reset(frame, now),
            kind::SETTINGS => self.take_settings(frame, now),
            kind::WINDOW_UPDATE => self.take_window_update(frame, now),
            kind::PING => self.take_ping(frame, now),
            kind::GOAWAY if frame.stream == 0 && frame.payload.len() >= 8 => self.spend(NOISE, now),
            kind::GOAWAY => Err(Fault::protocol("a GOAWAY is too short, or of a stream")),
            kind::PRIORITY if frame.stream == 0 => Err(Fault::protocol("a PRIORITY of no stream")),
            kind::PRIORITY if frame.payload.len() != 5 => self.refuse_priority(frame.stream, now),
            kind::PUSH_PROMISE => Err(Fault::protocol("clients push nothing")),
            _ => self.spend(NOISE, now),
        }
    }

    /// Ends the connection with a GOAWAY frame that carries the error.
    fn fail(&mut self, fault: Fault) {
        if self.fault.is_some() {
            return;
        }
        // A client that did not speak HTTP/2 would not understand a GOAWAY frame.
        if self.greeting == Greeting::Nothing {
            self.out.clear();
        } else {
            frame::write_goaway(&mut self.out, self.last_id, fault.reason, fault.why);
        }
        self.streams = Streams::new();
        self.tasks = Tasks::new();
        self.fault = Some(fault);
    }

    fn spend(&mut self, cost: u32, now: Instant) -> Result<(), Fault> {
        if self.calm.spend(cost, now) {
            return Ok(());
        }
        Err(Fault::new(Reason::ENHANCE_YOUR_CALM, "too many frames that ask for nothing"))
    }

    /// Makes progress on pending responses, within the output limit and the work of this turn.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        self.send_ready();
        while !self.is_full()
            && !self.turn_is_over()
            && let Poll::Ready((id, step)) = self.tasks.poll(cx)
        {
            self.charge(CALL_WORK, 0);
            self.take_step(id, step);
        }
        if self.streams.feeding > 0 {
            self.replenish(cx.waker());
        }
    }

    /// Returns the output buffer. Write it to the socket only while [`Connection::has_output`] is true: nothing is
    /// sent before the client has started to send its preface.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns whether there is output to write.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() && (self.greeting != Greeting::Nothing || self.fault.is_some())
    }

    /// Returns whether there is so much unsent output that no more input should be read.
    pub fn is_full(&self) -> bool {
        self.out.len() >= MAX_OUT_BYTES
    }

    /// Returns the client error that ended the connection, if any.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Returns the number of requests started since the connection was opened.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of open requests with collected bodies; streamed calls are not counted.
    pub fn collected_streams(&self) -> usize {
        self.streams.len() - self.streams.calls
    }

    /// Returns the number of open requests, streamed calls included.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }
}
