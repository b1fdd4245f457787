//! The protocol of one connection, without input and output: bytes go in, calls to the service are
//! made, bytes come out.
//!
//! - `requests`, `bodies`: from frames to calls
//! - `answers`: from answers to frames
//! - `control`: what concerns the connection: settings, windows, pings, farewells

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

/// Bytes a stream may send before they are read; messages are small.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// More bytes than these that the client has not read, and nothing further is done for it.
const MAX_OUT_BYTES: usize = 256 << 10;
/// What a call takes of the memory that connections share, beside its body and its answer: about what the
/// buffers and the future of one are, with a message that whoever answers has read.
const CALL_BYTES: usize = 24 << 10;

// Work is counted in units of about a quarter of a microsecond, so that turns are of about the same length whatever a
// client sends. Every frame counts one unit, and what it brings about counts beside that.
/// Bytes of a frame's payload that count one unit.
const PAYLOAD_BYTES_PER_WORK: usize = 1 << 10;
/// A read from the socket.
const READ_WORK: u32 = 8;
/// A write to the socket.
const WRITE_WORK: u32 = 16;
/// Bytes of a header block that count one unit when it has to be decoded.
const BLOCK_BYTES_PER_WORK: usize = 8;
/// The answer to a request whose message was collected.
const ANSWER_WORK: u32 = 4;
/// Bytes of its message that count one unit.
const MESSAGE_BYTES_PER_WORK: usize = 32;
/// The beginning of a call, and each step of one.
const CALL_WORK: u32 = 16;
/// A piece of an answer that had to wait.
const PIECE_WORK: u32 = 2;
/// Streams that count one unit where all of them are looked at.
const STREAMS_PER_WORK: usize = 8;

/// What a client may do, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Requests at once.
    pub max_streams: u32,
    /// Bytes of one request's headers. What is beyond them is left out if the service decides without
    /// ([`Service::takes_cut_head`]); otherwise the request is refused.
    pub header_bytes: usize,
    /// Bytes of a body that is collected.
    pub body_bytes: usize,
    /// How long any body may take, and how long a client may take to grant room for the next bytes of an
    /// answer.
    pub body_patience: Duration,
    /// Requests at once whose body is not collected ([`Service::call`]); they take more memory than others.
    pub max_calls: usize,
    /// After which silence the client is pinged, and how long it may take to say anything then.
    pub keep_alive: Option<(Duration, Duration)>,
}

/// What a client did that ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{why} ({reason})")]
pub struct Fault {
    /// What the client is told by number.
    pub reason: Reason,
    /// And in words.
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

/// How far the client has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Nothing,
    Preface,
    Settings,
}

/// The server's side of one connection.
pub struct Connection<S: Service> {
    service: S,
    settings: Settings,
    greeting: Greeting,
    decoder: Decoder,
    known: Known<Remembered<S::Call>>,
    streams: Streams<S::Call, S::Body>,
    /// Tells when bodies that are passed on are read.
    reads: Arc<Reads>,
    /// What all connections may hold together.
    budget: MemoryBudget,
    /// Work done in this turn.
    work: u32,
    /// Work that may be done in this turn.
    turn_work: u32,
    /// Requests that have begun.
    requests: u64,
    tasks: Tasks<S::Body>,
    sending: Sending,
    receiving: Receiving,
    /// What one stream may send before it is read.
    stream_window: u32,
    /// A header block whose end has not come.
    block: Option<Block>,
    /// The highest id of the client's streams.
    last_id: u32,
    recent: Recent,
    /// Whether the next header block has to say that we use no table.
    drops_table: bool,
    calm: Calm,
    keep_alive: KeepAlive,
    /// When [`Connection::on_time`] is to be called.
    wake_at: Option<Instant>,
    leaving: Leaving,
    fault: Option<Fault>,
    out: Vec<u8>,
}

impl<S: Service> Connection<S> {
    /// A connection that begins now.
    pub fn new(service: S, settings: Settings, now: Instant) -> Self {
        // A whole body has to fit, with room for padding; see `Receiving` for what is held.
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

    /// Holds bodies, calls and answers within a budget that connections share.
    #[must_use]
    pub fn with_budget(self, budget: MemoryBudget) -> Self {
        Self { budget, ..self }
    }

    /// Begins a turn of so much work, after which other connections are to have theirs. A unit is about a quarter of a
    /// microsecond.
    pub fn start_turn(&mut self, work: u32) {
        (self.work, self.turn_work) = (0, work);
    }

    /// Whether the work of this turn is done. What is left is done in the next: nothing is received until then.
    pub fn turn_is_over(&self) -> bool {
        self.work >= self.turn_work
    }

    /// The work done in this turn. It is more than was allowed if the last thing that was done took more than was left.
    pub fn work_done(&self) -> u32 {
        self.work
    }

    /// Counts a write of so many bytes of the output to the socket.
    pub fn note_write(&mut self, bytes: usize) {
        self.charge(WRITE_WORK, bytes / PAYLOAD_BYTES_PER_WORK);
    }

    /// Counts work, and work that depends on what the client sent.
    fn charge(&mut self, work: u32, more: usize) {
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.work = self.work.saturating_add(work).saturating_add(more);
    }

    /// Takes what came, and answers how many bytes of it: all but an incomplete frame at the end and what is
    /// beyond the work of one turn. The rest is to be passed again, with what follows it.
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

    /// Ends the connection with a farewell that says why.
    fn fail(&mut self, fault: Fault) {
        if self.fault.is_some() {
            return;
        }
        // A client that never spoke HTTP/2 would not understand it.
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

    /// Sends what has become ready, as far as there is room and as the turn lasts.
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

    /// What is to be sent. Nothing goes out before the client has begun to speak.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether there is something to send.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() && (self.greeting != Greeting::Nothing || self.fault.is_some())
    }

    /// Whether so much is to be sent that nothing more is to be received.
    pub fn is_full(&self) -> bool {
        self.out.len() >= MAX_OUT_BYTES
    }

    /// What the client did wrong, if that is the end.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Requests that have begun since the connection was opened.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests that are being collected or answered, without those that stream.
    pub fn collected_streams(&self) -> usize {
        self.streams.len() - self.streams.calls
    }

    /// Requests that are being received or answered.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }
}
