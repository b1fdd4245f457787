//! What the HTTP and admin listeners make of connections, whatever comes over them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::bad_input::{EMPTY_SETTINGS, PREFACE, connect, drained, frames};
use crate::support::service::{Service, Setup, get, service, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000}}]
";

fn check() -> String {
    let body = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
    let length = body.len();
    format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn said(stream: TcpStream) -> String {
    String::from_utf8_lossy(&drained(stream)).into_owned()
}

fn statuses(answers: &str) -> Vec<&str> {
    answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

#[test]
fn a_request_is_answered_whatever_follows_it() {
    let service = service(RULES);
    let mut stream = connect(service.http);
    stream.write_all(format!("{}GARBAGE FOO\r\n\r\n", check()).as_bytes()).expect("it reads");
    assert_eq!(statuses(&said(stream)), ["200", "400"]);
}

#[test]
fn a_request_is_answered_before_the_next_one_is_whole() {
    let service = Setup::rules(RULES).with("http.header_timeout", "1h").start();
    let mut stream = connect(service.http);
    stream.write_all(format!("{}POST /v1/check HTTP/1.1\r\nho", check()).as_bytes()).expect("it reads");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[test]
fn broken_and_oversize_headers_are_told_so() {
    let service = service(RULES);
    let headers = |headers: &str| format!("GET /healthcheck HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let cases = [
        (headers(&format!("x: {}\r\n", "y".repeat(17_000))), "431"),
        (headers(&"x: y\r\n".repeat(101)), "431"),
        (headers("no colon\r\n"), "400"),
        ("GET / HTTP/7.0\r\n\r\n".to_owned(), "400"),
    ];
    for at in [service.http, service.admin] {
        for (request, expected) in &cases {
            let mut stream = connect(at);
            stream.write_all(request.as_bytes()).expect("it reads");
            assert_eq!(statuses(&said(stream)), [*expected], "{}", &request[..40.min(request.len())]);
        }
    }
}

#[test]
fn a_request_has_at_most_a_hundred_headers_over_http2_too() {
    let service = service(RULES);
    for (at, path) in [(service.http, "/healthcheck"), (service.admin, "/healthcheck"), (service.grpc, "/")] {
        // `:status: 200` is number 8 of the known fields, or spelt out.
        for (count, refused) in [(100, false), (101, true), (200, true)] {
            let mut block = vec![0x82, 0x86, 0x44, path.len() as u8];
            block.extend(path.as_bytes());
            block.extend([0x41, 9]);
            block.extend(b"localhost");
            block.extend([0, 1, b'x', 1, b'y'].repeat(count));
            let mut bytes = [PREFACE, EMPTY_SETTINGS].concat();
            bytes.extend(&(block.len() as u32).to_be_bytes()[1..]);
            bytes.extend([1, 5, 0, 0, 0, 1]);
            bytes.extend(block);
            let mut stream = connect(at);
            stream.write_all(&bytes).expect("it reads");
            let head = loop {
                let mut header = [0; 9];
                stream.read_exact(&mut header).expect("a frame");
                let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                let mut payload = vec![0; length];
                stream.read_exact(&mut payload).expect("a frame");
                if header[3] == 1 {
                    break payload;
                }
            };
            let passes = head[0] == 0x88 || head.windows(3).any(|text| text == b"200");
            assert_eq!(!passes, refused, "{path} with {count} headers at {at}: {head:?}");
        }
    }
}

#[test]
fn who_does_not_take_the_answers_is_shut_out_and_holds_little_until_then() {
    let service = Setup::rules(RULES).with("http.header_timeout", "2s").start();
    get(service.http, "/healthcheck");
    let before = service.resident_bytes();
    let many = b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100_000);
    let streams: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = connect(service.http);
            stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a time-out");
            // It is not all read: that is the point.
            let _ = stream.write_all(&many);
            stream
        })
        .collect();
    let held = service.resident_bytes().saturating_sub(before);
    assert!(held < 50 << 20, "{held} bytes are held for ten connections");
    until("they are shut out", || {
        let metrics = get(service.admin, "/metrics").body;
        metrics.contains("ratelimit_connection_events_total{listener=\"http\",event=\"timed_out\"} 10")
    });
    drop(streams);
}

#[test]
fn a_quiet_http2_connection_is_asked_to_go_and_not_cut() {
    let service =
        Setup::rules(RULES).with("http.idle_timeout", "3s").with("http.header_timeout", "500ms").start();
    for at in [service.http, service.admin] {
        let mut stream = connect(at);
        let path = b"/healthcheck";
        let mut block = vec![0x82, 0x86, 0x44, path.len() as u8];
        block.extend(path);
        block.extend([0x41, 9]);
        block.extend(b"localhost");
        let mut bytes = [PREFACE, EMPTY_SETTINGS].concat();
        bytes.extend([0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
        bytes.extend(block);
        // A ping is no beginning of a request.
        bytes.extend([0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        stream.write_all(&bytes).expect("it reads");
        let answer = drained(stream);
        let frames = frames(&answer);
        let ended = frames.iter().find(|(kind, _)| *kind == 7).map(|(_, payload)| &payload[4..8]);
        assert_eq!(ended, Some(&[0; 4][..]), "a GOAWAY without an error: {frames:?}");
        assert!(frames.iter().any(|(kind, payload)| *kind == 0 && *payload == b"OK"), "{frames:?}");
    }
}

/// How often each of the threads that answer requests has been awake.
fn wakes(service: &Service) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", service.pid())).expect("threads");
    let texts =
        tasks.flatten().map(|task| fs::read_to_string(task.path().join("status")).unwrap_or_default());
    let workers = texts.filter(|text| text.contains("tidegate-worker"));
    let switches = |text: String| {
        text.lines().filter(|line| line.contains("voluntary_ctxt_switches")).collect::<Vec<_>>().join(" ")
    };
    let mut found: Vec<String> = workers.map(switches).collect();
    found.sort();
    found
}

#[test]
fn administrators_are_served_by_a_thread_of_their_own() {
    let service = Setup::rules(RULES).with("workers", "2").start();
    get(service.admin, "/metrics");
    let before = wakes(&service);
    assert_eq!(before.len(), 2);
    for path in ["/metrics", "/stats", "/rlconfig", "/readyz", "/openapi.json"] {
        assert_eq!(get(service.admin, path).status, 200);
    }
    assert_eq!(wakes(&service), before, "those that answer requests slept on");
}
