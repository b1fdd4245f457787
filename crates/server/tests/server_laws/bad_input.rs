//! Hostile and broken input over the wire: a clear refusal or a shed connection, never a panic,
//! never a counter changed, and nobody else disturbed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tonic::Code as GrpcCode;

use crate::support::clients::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::support::clients::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::support::grpc::{Client, descriptor, only, with_hits};
use crate::support::service::{PATIENCE, Service, Setup, get, service, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000}}]
";
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn left(service: &Service) -> u32 {
    only(&Client::new(service).check("api", &[with_hits(&[("user", "ann")], 0)])).limit_remaining
}

pub(crate) fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// Reads until the other side closes.
pub(crate) fn drained(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// The HTTP/2 frames of some bytes, each as its kind and its payload.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, _flags, _, _, _, _, rest @ ..] = bytes {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        frames.push((*kind, payload));
        bytes = rest;
    }
    frames
}

#[test]
fn requests_beyond_a_bound_are_refused_by_name_and_charge_nothing_if_told_so() {
    let service = Setup::rules(RULES).with("bounds.odd_values", "refuse").start();
    let mut client = Client::new(&service);
    let ann = || descriptor(&[("user", "ann")]);
    let many = |count: usize| RateLimitDescriptor { entries: vec![ann().entries[0].clone(); count], ..ann() };
    let text = |length: usize| "x".repeat(length);
    let cases = [
        (vec![ann(); 10_000], "descriptors must be at most 100 (bounds.descriptors)"),
        (vec![ann(), many(33)], "entries of a descriptor must be at most 32 (bounds.entries)"),
        (vec![ann(), many(0)], "the entries of a descriptor must not be empty"),
        (
            vec![ann(), descriptor(&[("user", &text(70_000))])],
            "must be at most 65536 (bounds.value_bytes), got 70000",
        ),
        (vec![ann(), descriptor(&[(&text(300), "x")])], "must be at most 256 (bounds.key_bytes), got 300"),
        (vec![ann(), descriptor(&[("", "x")])], "the key of an entry must not be empty"),
        (
            vec![ann(), descriptor(&[("user", "a\0b")])],
            "must not contain control characters, found U+0000 at byte 1",
        ),
        (vec![ann(), descriptor(&[("us\ner", "x")])], "found U+000A at byte 2"),
        (
            vec![ann(), with_hits(&[("user", "ann")], u64::MAX)],
            "cost must be at most 9007199254740992 (2^53)",
        ),
    ];
    for (descriptors, expected) in cases {
        let request = RateLimitRequest { domain: "api".to_owned(), descriptors, hits_addend: 0 };
        let refused = client.ask(request).expect_err(expected);
        assert_eq!(refused.code(), GrpcCode::InvalidArgument, "{refused}");
        assert!(refused.message().contains(expected), "{refused}");
    }
    let huge = descriptor(&[("user", &text(1 << 20))]);
    let refused =
        client.ask(RateLimitRequest { domain: "api".to_owned(), descriptors: vec![huge], hits_addend: 0 });
    let refused = refused.expect_err("a value of a mebibyte");
    assert_eq!(refused.code(), GrpcCode::InvalidArgument);
    assert!(refused.message().contains("at most 1048576 bytes (bounds.message_bytes)"), "{refused}");
    assert_eq!(left(&service), 1000);
}

#[test]
fn broken_messages_and_framing_are_refused() {
    let service = Setup::rules(RULES).with("bounds.odd_values", "refuse").start();
    let unreadable: [(&[u8], GrpcCode, &str); 6] = [
        (b"", GrpcCode::InvalidArgument, "no message"),
        (&[0, 0, 0, 0, 9, 1], GrpcCode::InvalidArgument, "9 bytes were announced, 1 came"),
        (&[1, 0, 0, 0, 1, 0], GrpcCode::Unimplemented, "compressed"),
        (&[0, 0, 0, 0, 3, 0x0a, 9, b'x'], GrpcCode::InvalidArgument, "cut off"),
        (
            &[0, 0, 0, 0, 4, 0x0a, 2, 0xff, 0xfe],
            GrpcCode::InvalidArgument,
            "must be UTF-8 (bounds.odd_values)",
        ),
        (&[0, 0, 0, 0, 2, 0x08, 1], GrpcCode::InvalidArgument, "wrong wire type"),
    ];
    for (body, code, expected) in unreadable {
        let (status, message, _) = raw_call(service.grpc, body);
        assert_eq!(status, (code as i32).to_string(), "{body:?}: {message}");
        assert!(message.contains(expected), "{body:?}: {message}");
    }
    assert_eq!(left(&service), 1000);
}

/// Calls `ShouldRateLimit` with any bytes for a body; answers the status, its message and the body.
pub(crate) fn raw_call(at: SocketAddr, body: &[u8]) -> (String, String, Vec<u8>) {
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    raw_call_of(at, path, &[], body)
}

/// Calls any path with any bytes for a body and with more headers; answers the status, its message and the body.
pub(crate) fn raw_call_of(
    at: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (String, String, Vec<u8>) {
    use http_body_util::{BodyExt, Full};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let body = bytes::Bytes::copy_from_slice(body);
    runtime.block_on(async move {
        let io = TokioIo::new(tokio::net::TcpStream::connect(at).await.expect("it listens"));
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request = http::Request::post(format!("http://{at}{path}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request =
            request.header("content-type", "application/grpc").body(Full::new(body)).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        let headers = response.headers().clone();
        let collected = response.into_body().collect().await.expect("a body");
        let trailers = collected.trailers().cloned();
        let body = collected.to_bytes().to_vec();
        let find = |name: &str| {
            let found =
                headers.get(name).or_else(|| trailers.as_ref().and_then(|trailers| trailers.get(name)));
            found
                .map(|value| String::from_utf8_lossy(value.as_bytes()).replace("%20", " "))
                .unwrap_or_default()
        };
        (find("grpc-status"), find("grpc-message"), body)
    })
}

#[test]
fn thousands_of_silent_and_slow_connections_are_shed_and_others_are_served() {
    let service = Setup::rules(RULES)
        .with("connections.handshake_timeout", "1s")
        .with("http.header_timeout", "1s")
        .start();
    let mut sockets = Vec::new();
    for number in 0..5_000 {
        let at = if number % 2 == 0 { service.http } else { service.grpc };
        let mut stream = TcpStream::connect(at).expect("it accepts");
        // A third sends nothing, a third a little, a third one line of headers.
        let sent: &[u8] = [&b""[..], b"P", b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\n"][number % 3];
        stream.write_all(sent).expect("it reads");
        sockets.push(stream);
    }
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200, "others are served meanwhile");
    assert_eq!(left(&service), 999);
    until("they are gone", || {
        let metrics = get(service.admin, "/metrics").body;
        let open =
            |listener: &str| metrics.contains(&format!("ratelimit_connections{{listener=\"{listener}\"}} 0"));
        open("http") && open("grpc")
    });
    drop(sockets);
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200);
}

#[test]
fn connections_beyond_the_bound_are_shed_and_the_other_listeners_go_on() {
    let setup = Setup::rules(RULES).with("connections.max", "10").with("http.header_timeout", "1h");
    let service = setup.with("connections.handshake_timeout", "1h").start();
    let mut kept = Vec::new();
    for (at, name) in [(service.http, "http"), (service.grpc, "grpc")] {
        let counted = |count: usize| {
            let line = format!("ratelimit_connections{{listener=\"{name}\"}} {count}\n");
            get(service.admin, "/metrics").body.contains(&line)
        };
        // Who asked before may not have left yet.
        until("nobody else is there", || counted(0));
        let oldest = connect(at);
        kept.extend((0..9).map(|_| connect(at)));
        until("they are counted", || counted(10));
        kept.push(connect(at));
        assert!(drained(oldest).is_empty(), "the oldest, which has asked for nothing, makes room");
        until("there are no more than the bound", || counted(10));
        assert_eq!(get(service.admin, "/healthcheck").body, "OK", "who administrates is served");
        if name == "http" {
            assert_eq!(left(&service), 1000, "Envoy is served");
        }
    }
    drop(kept);
    until("there is room again", || service.check("api", r#"{"user":"ann"}"#).status == 200);
}

#[test]
fn a_kept_connection_is_closed_when_it_has_been_quiet_for_long() {
    let service =
        Setup::rules(RULES).with("http.idle_timeout", "500ms").with("http.header_timeout", "500ms").start();
    let mut stream = connect(service.http);
    stream.write_all(b"GET /healthcheck HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it reads");
    let answer = drained(stream);
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn rapid_resets_end_the_connection_and_nothing_else() {
    let service = service(RULES);
    let mut stream = connect(service.grpc);
    let mut bytes = [PREFACE, EMPTY_SETTINGS].concat();
    for number in 0..2_000_u32 {
        let stream_id = (2 * number + 1).to_be_bytes();
        // HEADERS that end nothing: `:method POST`, `:scheme http`, `:path /`, an authority.
        let block = [0x83, 0x86, 0x84, 0x41, 1, b't'];
        bytes.extend([0, 0, block.len() as u8, 1, 4]);
        bytes.extend(stream_id);
        bytes.extend(block);
        bytes.extend([0, 0, 4, 3, 0]);
        bytes.extend(stream_id);
        bytes.extend([0, 0, 0, 8]);
    }
    // It may close before all of it is sent.
    let _ = stream.write_all(&bytes);
    let answer = drained(stream);
    // It is sent away for being a nuisance (ENHANCE_YOUR_CALM), unless it was reset before it could read that.
    let went_away =
        frames(&answer).iter().any(|(kind, payload)| *kind == 7 && payload[4..8] == [0, 0, 0, 11]);
    assert!(went_away || answer.len() < 1_000, "a GOAWAY, or a close");
    assert_eq!(left(&service), 1000, "others are served");
}

#[test]
fn header_floods_are_refused() {
    let service = service(RULES);
    let mut stream = connect(service.http);
    let line = format!("x-flood: {}\r\n", "y".repeat(1_000));
    let flood = format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\n{}\r\n", line.repeat(100));
    let _ = stream.write_all(flood.as_bytes());
    let answer = drained(stream);
    assert!(answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));

    let mut stream = connect(service.grpc);
    let mut bytes = [PREFACE, EMPTY_SETTINGS].concat();
    bytes.extend([0, 0, 3, 1, 0, 0, 0, 0, 1, 0x83, 0x86, 0x84]);
    for _ in 0..2_000 {
        // CONTINUATION without an end, each with one long header.
        let value = vec![b'y'; 1_000];
        let mut block = vec![0x00, 1, b'x', 0x7f, 0x69 | 0x80, 0x06];
        block.extend(&value);
        bytes.extend(&(block.len() as u32).to_be_bytes()[1..]);
        bytes.extend([9, 0, 0, 0, 0, 1]);
        bytes.extend(block);
    }
    let _ = stream.write_all(&bytes);
    let _ = drained(stream);
    assert_eq!(left(&service), 1000, "others are served");
}

#[test]
fn a_body_that_never_comes_is_given_up() {
    let service = Setup::rules(RULES).with("http.header_timeout", "1s").start();
    let mut stream = connect(service.http);
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{";
    stream.write_all(head.as_bytes()).expect("it reads");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a time-out");
    let answer = drained(stream);
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(left(&service), 1000);
}

#[test]
fn garbage_on_every_listener_hurts_nobody() {
    let mut service = service(RULES);
    for at in [service.http, service.grpc, service.admin] {
        for garbage in
            [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0\0\0\0\0", b"GET / HTTP/9.9\r\n\r\n", &[0xff; 4_096]]
        {
            let mut stream = connect(at);
            stream.write_all(garbage).expect("it reads");
            // Whoever sends half a request is waited for; this one goes, unless it was shown out before.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = drained(stream);
        }
    }
    assert!(service.runs());
    assert_eq!(left(&service), 1000);
}
