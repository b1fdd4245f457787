//! Sends whatever comes to the HTTP/2 server, whole and cut in two: it is never a panic, what is said
//! is frames and nothing else, and the cut changes nothing.

#![no_main]

use std::future::{Ready, ready};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use libfuzzer_sys::fuzz_target;
use tidegate_http2::frame::{Frame, HEADER_BYTES, PREFACE};
use tidegate_http2::{Answer, Connection, Inbox, Service, Settings, Whole};
use tokio::time::Instant;

const SETTINGS: Settings = Settings {
    max_streams: 8,
    header_bytes: 1024,
    body_bytes: 256,
    body_patience: Duration::from_secs(10),
    max_calls: 4,
    keep_alive: Some((Duration::from_secs(30), Duration::from_secs(20))),
};

struct Echo;

impl Service for Echo {
    /// Whether the answer takes a while.
    type Call = bool;
    type Body = Empty<Bytes>;

    fn route(&self, head: &Request<()>) -> Option<bool> {
        let path = head.uri().path();
        (path != "/").then_some(path.ends_with("later"))
    }

    fn answer(&self, later: &bool, body: Whole<'_>, out: &mut Vec<u8>) -> Answer {
        match body {
            Whole::Bytes(body) if *later => Answer::Later(Box::pin(ready(Ok(body.to_vec())))),
            Whole::Bytes(body) => {
                out.extend_from_slice(body);
                Answer::Message
            }
            Whole::TooLong | Whole::Late(_) | Whole::NoRoom => Answer::Refused(http::HeaderMap::new()),
        }
    }

    fn call(&self, _: Request<Inbox>) -> impl Future<Output = Response<Self::Body>> + Send + 'static {
        let answer: Ready<_> = ready(Response::new(Empty::new()));
        answer
    }
}

/// All that is said, and whether that is the end.
fn said(input: &[u8], cut: usize, now: Instant) -> (Vec<u8>, bool) {
    let mut connection = Connection::new(Echo, SETTINGS, now);
    let mut taken = 0;
    for end in [cut, input.len()] {
        loop {
            connection.start_turn(512);
            taken += connection.receive(&input[taken..end.max(taken)], now);
            if !connection.turn_is_over() {
                break;
            }
        }
    }
    connection.start_turn(512);
    connection.poll(&mut Context::from_waker(Waker::noop()));
    connection.graceful_shutdown();
    connection.on_time(now + Duration::from_secs(60));
    let is_over = connection.is_over();
    (std::mem::take(connection.out()), is_over)
}

fuzz_target!(|input: (u16, &[u8])| {
    // With a greeting most inputs get further.
    let greeted = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], input.1].concat();
    let now = Instant::now();
    for bytes in [&greeted[..], input.1] {
        let cut = usize::from(input.0) % (bytes.len() + 1);
        let whole = said(bytes, bytes.len(), now);
        assert_eq!(whole, said(bytes, cut, now), "a cut at {cut}");
        let mut rest = &whole.0[..];
        while let Some(frame) = Frame::parse(rest).expect("no frame is too long") {
            rest = &rest[HEADER_BYTES + frame.payload.len()..];
        }
        assert!(rest.is_empty(), "half a frame");
    }
});
