//! Floods over HTTP/2: frames that a hostile client sends to the gRPC listener to cost the service more than the
//! client.
//!
//! Each flood is bounded: it ends when it is told to, and has a maximum number of connections and bytes. Tests and
//! the attack suite iterate over [`FLOODS`], so a new flood is a new row.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use tidegate_testkit::floods::{FLOODS, Stop};
//!
//! let at = "127.0.0.1:8081".parse().unwrap();
//! for flood in FLOODS {
//!     let sent = flood.run(at, &Stop::at(Instant::now() + Duration::from_secs(1)));
//!     println!("{}: {} bytes on {} connections", flood.name, sent.bytes, sent.connections);
//! }
//! ```

mod caller;

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_http2::frame::{self, PREFACE, flag, kind, setting};
use tidegate_http2::hpack::encode;

pub use self::caller::Caller;

/// The size of one write.
const CHUNK_BYTES: usize = 32 << 10;
/// The most connections that one flood opens, including those that replace closed ones.
const MAX_CONNECTIONS: usize = 200;
/// The most bytes that one flood sends.
const MAX_BYTES: u64 = 512 << 20;
/// The timeout of a write, after which the flood checks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

const END: u8 = flag::END_HEADERS | flag::END_STREAM;
const CHECK: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// A kind of attack.
pub struct Flood {
    /// The name in tables and test messages.
    pub name: &'static str,
    /// The number of concurrent connections.
    pub connections: usize,
    /// What each connection sends first, after the connection preface.
    begin: fn(&mut Frames),
    /// What each connection then sends repeatedly.
    repeat: fn(&mut Frames),
    /// Whether the client reads the responses.
    reads: bool,
}

/// All floods, one row each.
pub const FLOODS: &[Flood] = &[
    one("pings", nothing, |out| out.frame(kind::PING, 0, 0, &[0; 8])),
    one("settings", nothing, |out| out.frame(kind::SETTINGS, 0, 0, &[])),
    one("priorities", |out| out.start(CHECK), |out| out.frame(kind::PRIORITY, 0, 1, &[0; 5])),
    one("unknown frames", nothing, |out| out.frame(0xee, 0, 0, &[0; 8])),
    one("empty data", |out| out.start(CHECK), |out| out.frame(kind::DATA, 0, 1, &[])),
    one("data of one byte", |out| out.start(CHECK), |out| out.frame(kind::DATA, 0, 1, &[0])),
    one("continuations", Frames::begin_block, |out| out.frame(kind::CONTINUATION, 0, 1, &[])),
    one("grants of one byte", Frames::block_answers, |out| out.grant(0, 1)),
    one("grants to streams", Frames::block_streams, |out| {
        let stream = 2 * (out.round % 1_000) + 1;
        out.grant(stream, 1);
    }),
    one("opened and reset", nothing, |out| {
        let stream = out.open(CHECK);
        out.frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }),
    one("unknown paths", nothing, |out| out.request("/no/such")),
    one("unknown methods", nothing, |out| out.request("/tidegate.v1.Permits/Nothing")),
    one("new headers", nothing, Frames::request_with_new_header),
    one("long heads", nothing, Frames::request_with_long_header),
    one("heads of several frames", nothing, Frames::request_in_several_frames),
    one("windows that change", Frames::block_streams, |out| {
        let window = out.round % 2;
        frame::write_settings(&mut out.bytes, &[(setting::INITIAL_WINDOW_SIZE, window)]);
    }),
    one("large messages", nothing, Frames::large_message),
    one("malformed heads", nothing, |out| {
        let stream = out.next();
        out.frame(kind::HEADERS, END, stream, &[0x83]);
    }),
    one("checks", nothing, |out| {
        out.call(CHECK, &message(b"\x0a\x03api\x12\x0d\x0a\x0b\x0a\x04user\x12\x03eve"));
    }),
    one("health", nothing, |out| out.call(HEALTH, &message(b""))),
    Flood {
        reads: false,
        ..one("answers that nobody reads", nothing, |out| out.call(HEALTH, &message(b"")))
    },
    Flood { connections: 32, ..one("calls without a body", nothing, |out| out.start(HEALTH)) },
    Flood {
        connections: 32,
        ..one("streams that are watched", nothing, |out| out.call(WATCH, &message(b"")))
    },
    Flood { connections: 32, ..one("bodies that drip", nothing, Frames::drip) },
    Flood {
        connections: 32,
        ..one("checks on many connections", nothing, |out| {
            out.call(CHECK, &message(b"\x0a\x03api\x12\x0d\x0a\x0b\x0a\x04user\x12\x03eve"));
        })
    },
];

const fn one(name: &'static str, begin: fn(&mut Frames), repeat: fn(&mut Frames)) -> Flood {
    Flood { name, connections: 1, begin, repeat, reads: true }
}

fn nothing(_: &mut Frames) {}

/// Tells a flood when to end. Cheap to clone: clones share their state.
#[derive(Clone, Debug)]
pub struct Stop {
    deadline: Instant,
    told: Arc<AtomicBool>,
    sent_bytes: Arc<AtomicU64>,
}

impl Stop {
    /// Ends the flood at this time at the latest.
    pub fn at(deadline: Instant) -> Self {
        Self { deadline, told: Arc::default(), sent_bytes: Arc::default() }
    }

    /// Ends the flood now.
    pub fn now(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// Returns the bytes sent so far by all floods with this value.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    #[expect(clippy::disallowed_methods, reason = "floods run against other processes, in real time")]
    fn is_now(&self) -> bool {
        self.told.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

/// How much a flood has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of connections opened, including those that replaced closed ones.
    pub connections: usize,
}

impl Flood {
    /// Returns the flood with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FLOODS.iter().find(|flood| flood.name == name)
    }

    /// Runs the flood until it is told to stop. Blocks the calling thread.
    pub fn run(&self, at: SocketAddr, stop: &Stop) -> Sent {
        thread::scope(|scope| {
            let share = |_| scope.spawn(|| self.run_one(at, stop));
            let threads: Vec<_> = (0..self.connections).map(share).collect();
            threads.into_iter().fold(Sent::default(), |sum, thread| {
                let sent = thread.join().unwrap_or_default();
                Sent { bytes: sum.bytes + sent.bytes, connections: sum.connections + sent.connections }
            })
        })
    }

    fn run_one(&self, at: SocketAddr, stop: &Stop) -> Sent {
        let mut sent = Sent::default();
        while !stop.is_now() && sent.connections < MAX_CONNECTIONS / self.connections {
            sent.connections += 1;
            // The service closes such connections, and may not accept another one: both are fine.
            let _ = self.connect(at, stop, &mut sent.bytes);
        }
        sent
    }

    /// Runs one connection until it is closed or the flood ends.
    fn connect(&self, at: SocketAddr, stop: &Stop, bytes: &mut u64) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(5))?;
        stream.set_write_timeout(Some(LOOK))?;
        let mut frames = Frames { bytes: PREFACE.to_vec(), stream: 1, round: 0 };
        frames.frame(kind::SETTINGS, 0, 0, &[]);
        (self.begin)(&mut frames);
        thread::scope(|scope| {
            if self.reads {
                let mut answers = stream.try_clone()?;
                scope.spawn(move || {
                    let mut buffer = [0; 16 << 10];
                    while answers.read(&mut buffer).is_ok_and(|read| read > 0) {}
                });
            }
            let flooded = self.write(&mut stream, &mut frames, stop, bytes);
            // This also ends the reading thread.
            let _ = stream.shutdown(Shutdown::Both);
            flooded
        })
    }

    fn write(
        &self,
        stream: &mut TcpStream,
        frames: &mut Frames,
        stop: &Stop,
        bytes: &mut u64,
    ) -> io::Result<()> {
        let most = MAX_BYTES / self.connections as u64;
        while !stop.is_now() && *bytes < most && frames.stream < frame::MAX_NUMBER / 2 {
            while frames.bytes.len() < CHUNK_BYTES {
                (self.repeat)(frames);
                frames.round += 1;
            }
            let mut written = 0;
            while written < frames.bytes.len() && !stop.is_now() {
                match stream.write(&frames.bytes[written..]) {
                    Ok(0) => return Ok(()),
                    Ok(more) => {
                        written += more;
                        *bytes += more as u64;
                        stop.sent_bytes.fetch_add(more as u64, Ordering::Relaxed);
                    }
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                    Err(error) => return Err(error),
                }
            }
            frames.bytes.clear();
        }
        Ok(())
    }
}

/// Frames to be sent on one connection.
struct Frames {
    bytes: Vec<u8>,
    /// The ID of the next stream.
    stream: u32,
    /// How many times the repeated part was sent.
    round: u32,
}

impl Frames {
    fn next(&mut self) -> u32 {
        self.stream += 2;
        self.stream - 2
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        frame::write_header(&mut self.bytes, payload.len(), kind, flags, stream);
        self.bytes.extend_from_slice(payload);
    }

    fn grant(&mut self, stream: u32, more: u32) {
        frame::write_window_update(&mut self.bytes, stream, more);
    }

    /// Appends the head of a request whose body follows.
    fn open(&mut self, path: &str) -> u32 {
        let stream = self.next();
        self.frame(kind::HEADERS, flag::END_HEADERS, stream, &head(path));
        stream
    }

    /// Opens a stream whose ID is not needed.
    fn start(&mut self, path: &str) {
        self.open(path);
    }

    /// Appends a request without a body.
    fn request(&mut self, path: &str) {
        let stream = self.next();
        self.frame(kind::HEADERS, END, stream, &head(path));
    }

    fn call(&mut self, path: &str, body: &[u8]) {
        let stream = self.open(path);
        self.frame(kind::DATA, flag::END_STREAM, stream, body);
    }

    /// Appends a request with a header that the service must add to its header table.
    fn request_with_new_header(&mut self) {
        let stream = self.next();
        let mut block = head(CHECK);
        let value = format!("{:08x}", self.round);
        block.extend_from_slice(&[0x40, 1, b'x', value.len() as u8]);
        block.extend_from_slice(value.as_bytes());
        self.frame(kind::HEADERS, END, stream, &block);
    }

    /// Appends a request with a header that is slow to decode and is not added to the header table.
    fn request_with_long_header(&mut self) {
        let stream = self.next();
        let mut block = head(CHECK);
        let value = format!("{:08x}", self.round).repeat(900);
        encode::field(&mut block, "x", value.as_bytes());
        self.frame(kind::HEADERS, END, stream, &block);
    }

    /// Appends a head that is nearly as long as the service takes, in frames of the largest size.
    fn request_in_several_frames(&mut self) {
        let stream = self.next();
        let mut block = head(CHECK);
        let value = format!("{:08x}", self.round).repeat(14_000);
        encode::field(&mut block, "x", value.as_bytes());
        let (first, rest) = block.split_at(frame::MAX_PAYLOAD_BYTES);
        self.frame(kind::HEADERS, flag::END_STREAM, stream, first);
        let mut pieces = rest.chunks(frame::MAX_PAYLOAD_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
            self.frame(kind::CONTINUATION, flags, stream, piece);
        }
    }

    /// Appends a message of 800 kB with as many descriptors as fit, in frames of the largest size.
    fn large_message(&mut self) {
        let stream = self.open(CHECK);
        let descriptor = b"\x12\x0d\x0a\x0b\x0a\x04user\x12\x03eve";
        let body = message(&[&b"\x0a\x03api"[..], &descriptor.repeat(53_000)].concat());
        let mut pieces = body.chunks(frame::MAX_PAYLOAD_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { flag::END_STREAM } else { 0 };
            self.frame(kind::DATA, flags, stream, piece);
        }
    }

    /// Appends half of a header block.
    fn begin_block(&mut self) {
        let stream = self.next();
        self.frame(kind::HEADERS, 0, stream, &head(CHECK));
    }

    /// Causes as many responses as allowed, all blocked by the window of the connection.
    fn block_answers(&mut self) {
        for _ in 0..2_000 {
            self.call(HEALTH, &message(b""));
        }
        for _ in 0..1_024 {
            self.call(CHECK, &message(b"\x0a\x03api\x12\x0d\x0a\x0b\x0a\x04user\x12\x03eve"));
        }
    }

    /// Causes as many responses as allowed, each blocked by the window of its stream.
    fn block_streams(&mut self) {
        frame::write_settings(&mut self.bytes, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
        for _ in 0..1_024 {
            self.call(CHECK, &message(b"\x0a\x03api\x12\x0d\x0a\x0b\x0a\x04user\x12\x03eve"));
        }
    }

    /// Opens a stream now and then, and sends one byte on one of the open streams.
    fn drip(&mut self) {
        if self.round < 256 {
            self.open(REFLECTION);
        }
        let stream = 2 * (self.round % 256) + 1;
        self.frame(kind::DATA, 0, stream, &[0]);
    }
}

fn head(path: &str) -> Vec<u8> {
    let mut block = Vec::with_capacity(128);
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "t"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    for (name, value) in fields {
        encode::field(&mut block, name, value.as_bytes());
    }
    block
}

/// Returns a message with the gRPC prefix.
fn message(bytes: &[u8]) -> Vec<u8> {
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}
