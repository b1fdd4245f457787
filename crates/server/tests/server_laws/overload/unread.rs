//! Responses that clients do not read are held within the memory that there is, and not for long.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_http2::frame::{self, PREFACE, flag, kind, setting};
use tidegate_http2::hpack::encode;

use super::RULES;
use crate::bad_input::connect;
use crate::support::service::{Service, Setup, get, until};

const LIMIT: u64 = 128 << 20;
const CONNECTIONS: usize = 12;
const STREAMS: u32 = 60;

/// A batch whose response is some 200 KiB.
fn batch() -> String {
    let one = |number: u32| format!(r#"{{"domain":"api","descriptor":{{"user":"u{number}"}}}}"#);
    format!("[{}]", (0..500).map(one).collect::<Vec<_>>().join(","))
}

/// A connection of HTTP/2 that asks many times over, and allows the service to send so many bytes of each response.
fn ask_without_reading(service: &Service, window_bytes: u32) -> TcpStream {
    let mut stream = connect(service.http);
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let mut bytes = PREFACE.to_vec();
    frame::write_settings(&mut bytes, &[(setting::INITIAL_WINDOW_SIZE, window_bytes)]);
    let body = batch();
    let mut block = Vec::new();
    let fields =
        [(":method", "POST"), (":scheme", "http"), (":path", "/v1/check"), (":authority", "localhost")];
    for (name, value) in fields.into_iter().chain([("content-type", "application/json")]) {
        encode::field(&mut block, name, value.as_bytes());
    }
    for number in 0..STREAMS {
        let id = 2 * number + 1;
        frame::write_header(&mut bytes, block.len(), kind::HEADERS, flag::END_HEADERS, id);
        bytes.extend(&block);
        let pieces: Vec<&[u8]> = body.as_bytes().chunks(frame::MAX_PAYLOAD_BYTES).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let ends = if index + 1 == pieces.len() { flag::END_STREAM } else { 0 };
            frame::write_header(&mut bytes, piece.len(), kind::DATA, ends, id);
            bytes.extend(*piece);
        }
        // Whoever is closed meanwhile has asked enough.
        if stream.write_all(&std::mem::take(&mut bytes)).is_err() {
            break;
        }
        read_what_is_there(&mut stream);
    }
    stream
}

/// Reads windows and settings; responses are not sent. Returns whether the connection is closed.
fn read_what_is_there(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a time-out");
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

fn bodies(service: &Service, name: &str) -> u64 {
    let line = format!("{name}{{part=\"bodies\"}} ");
    let metrics = get(service.admin, "/metrics").body;
    metrics.lines().find_map(|found| found.strip_prefix(&*line)?.parse().ok()).expect("a number")
}

#[test]
fn responses_over_http2_that_nobody_reads_are_held_within_their_memory_and_not_for_long() {
    let setup = Setup::rules(RULES).with("memory.max_bytes", "128MiB").with("http.header_timeout", "2s");
    let service = setup.start();
    for window_bytes in [0, 1] {
        let mut unread: Vec<TcpStream> =
            (0..CONNECTIONS).map(|_| ask_without_reading(&service, window_bytes)).collect();
        assert!(bodies(&service, "ratelimit_memory_refused_total") > 0, "some found no room");
        let resident = service.resident_bytes();
        assert!(resident < LIMIT / 8 * 7, "{resident} bytes are used");
        assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200, "a good client is served");
        until("their memory is given back", || bodies(&service, "ratelimit_memory_bytes") == 0);
        // The others had no response to read: they were refused.
        assert!(unread.iter_mut().any(read_what_is_there), "who reads nothing is closed");
    }
}

#[test]
fn the_memory_of_a_response_over_http1_is_given_back_when_it_is_sent() {
    let service = Setup::rules(RULES).with("memory.max_bytes", "64MiB").start();
    // Together they have far more bytes than there may be at once.
    for _ in 0..200 {
        let answer = crate::support::service::post(service.http, "/v1/check", &batch());
        assert_eq!((answer.status, answer.body.len() > 64 << 10), (200, true));
    }
    until("their memory is given back", || bodies(&service, "ratelimit_memory_bytes") == 0);
    assert_eq!(bodies(&service, "ratelimit_memory_refused_total"), 0);
}
