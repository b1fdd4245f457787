//! A full gRPC listener: who has nothing to ask makes room for who has.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_http2::frame::{self, Frame, HEADER_BYTES, PREFACE, flag, kind};
use tidegate_http2::hpack::encode;

use super::RULES;
use crate::bad_input::connect;
use crate::support::service::{Service, Setup, until};

const CHECK: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// A message about `user=ann` in `api`, with gRPC's prefix.
const MESSAGE: &[u8] = b"\0\0\0\0\x14\x0a\x03api\x12\x0d\x0a\x0b\x0a\x04user\x12\x03ann";

/// A gRPC connection made of raw frames.
struct Raw {
    stream: TcpStream,
    next: u32,
}

impl Raw {
    /// One that has begun to speak HTTP/2, and asked nothing.
    fn silent(service: &Service) -> Self {
        let mut stream = connect(service.grpc);
        let mut bytes = PREFACE.to_vec();
        frame::write_settings(&mut bytes, &[]);
        stream.write_all(&bytes).expect("it reads");
        Self { stream, next: 1 }
    }

    /// One that has had an answer.
    fn new(service: &Service) -> Self {
        let mut raw = Self::silent(service);
        raw.ask();
        raw
    }

    /// Opens a stream.
    fn open(&mut self, path: &str) -> u32 {
        let mut block = Vec::new();
        let fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "t")];
        for (name, value) in fields.into_iter().chain([("content-type", "application/grpc")]) {
            encode::field(&mut block, name, value.as_bytes());
        }
        let mut bytes = Vec::new();
        frame::write_header(&mut bytes, block.len(), kind::HEADERS, flag::END_HEADERS, self.next);
        bytes.extend(block);
        self.stream.write_all(&bytes).expect("it reads");
        self.next += 2;
        self.next - 2
    }

    fn send_message(&mut self, stream: u32, message: &[u8]) {
        let mut bytes = Vec::new();
        frame::write_header(&mut bytes, message.len(), kind::DATA, flag::END_STREAM, stream);
        bytes.extend(message);
        self.stream.write_all(&bytes).expect("it reads");
    }

    /// Asks once, and waits for the answer.
    fn ask(&mut self) {
        let stream = self.open(CHECK);
        self.send_message(stream, MESSAGE);
        self.wait_for(stream, |frame| frame.has(flag::END_STREAM));
    }

    /// Watches health for as long as the connection lasts.
    fn watch(&mut self) {
        let stream = self.open(WATCH);
        self.send_message(stream, &[0; 5]);
        self.wait_for(stream, |frame| frame.kind == kind::DATA);
    }

    fn wait_for(&mut self, stream: u32, is_it: impl Fn(&Frame<'_>) -> bool) {
        loop {
            let mut bytes = vec![0; HEADER_BYTES];
            self.stream.read_exact(&mut bytes).expect("a frame");
            let length = usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
            bytes.resize(HEADER_BYTES + length, 0);
            self.stream.read_exact(&mut bytes[HEADER_BYTES..]).expect("a frame");
            let frame = Frame::parse(&bytes).expect("a frame").expect("all of it");
            if frame.stream == stream && is_it(&frame) {
                return;
            }
        }
    }

    /// Whether the service has closed it by now.
    fn is_closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out");
        let read = self.stream.read(&mut [0; 1024]);
        self.stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
        match read {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

#[test]
fn a_full_grpc_listener_closes_the_connection_that_is_idle_for_longest() {
    let service = Setup::rules(RULES).with("connections.max", "4").start();
    let [mut first, mut second, mut third, mut busy] = [(); 4].map(|()| Raw::new(&service));
    // It waits for a body that has not come.
    let stream = busy.open(CHECK);
    // So the second is the one that has been idle for longest, though not the oldest.
    first.ask();
    let mut fifth = Raw::new(&service);
    until("the second makes room", || second.is_closed());
    assert!(![&mut first, &mut third, &mut busy, &mut fifth].into_iter().any(Raw::is_closed));
    let mut sixth = Raw::new(&service);
    until("the third makes room", || third.is_closed());
    for raw in [&mut first, &mut fifth, &mut sixth] {
        raw.ask();
    }
    busy.send_message(stream, MESSAGE);
    busy.wait_for(stream, |frame| frame.has(flag::END_STREAM));
}

#[test]
fn connections_without_a_decision_make_room_before_those_with_one() {
    let service = Setup::rules(RULES).with("connections.max", "4").start();
    let mut good = Raw::new(&service);
    // They are newer, and never ask for anything.
    for _ in 0..20 {
        drop_later(Raw::silent(&service));
        Raw::new(&service).ask();
        assert!(!good.is_closed());
    }
    good.ask();
}

/// A client that watches health keeps its connection no longer than one that asks for nothing.
#[test]
fn watching_health_holds_no_place() {
    let service = Setup::rules(RULES).with("connections.max", "4").start();
    let mut watching: Vec<Raw> = (0..4).map(|_| Raw::silent(&service)).collect();
    watching.iter_mut().for_each(Raw::watch);
    let mut good = Raw::new(&service);
    good.ask();
    until("the first makes room", || watching[0].is_closed());
}

/// Keeps a connection open until the process ends.
fn drop_later(raw: Raw) {
    std::mem::forget(raw);
}
