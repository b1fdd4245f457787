//! Clients that break the protocol: the stream ends, or the connection, and the reason is said.

use tidegate_http2::Reason;
use tidegate_http2::frame::{PREFACE, flag, kind, setting};

use crate::support::{
    Client, SETTINGS, block, call, data, frame, head, message, open, settings, window_update,
};

const END: u8 = flag::END_HEADERS | flag::END_STREAM;

#[test]
fn what_is_not_http2_is_closed_without_a_word() {
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX", &[0x16, 3, 1]] {
        let mut client = Client::silent(SETTINGS);
        assert!(client.send(garbage).is_empty());
        assert!(client.connection.is_over());
    }
}

#[test]
fn the_first_frame_is_settings() {
    let mut client = Client::silent(SETTINGS);
    let bytes = [&PREFACE[..], &call(1, "/echo", b"")].concat();
    let seen = client.send(&bytes);
    assert_eq!(seen.last().map(|seen| seen.kind), Some(kind::GOAWAY));
}

#[test]
fn faults_that_end_the_connection() {
    let protocol = Reason::PROTOCOL_ERROR;
    let size = Reason::FRAME_SIZE_ERROR;

    let cases: [(Vec<u8>, Reason); 31] = [
        (data(0, b"", true), protocol),
        (data(1, b"of no stream", true), protocol),
        (data(2, b"of ours", true), protocol),
        (frame(kind::HEADERS, END, 0, &head("/echo")), protocol),
        (frame(kind::HEADERS, END, 2, &head("/echo")), protocol),
        (frame(kind::HEADERS, END | flag::PADDED, 1, &[200, 0x82]), protocol),
        ([open(1, "/echo"), frame(kind::DATA, flag::PADDED, 1, &[9, 1])].concat(), protocol),
        (frame(kind::HEADERS, END, 1, b"\xff\xff\xff\xff\xff\xff"), Reason::COMPRESSION_ERROR),
        (frame(kind::HEADERS, END, 1, b"\xbe"), Reason::COMPRESSION_ERROR),
        ([frame(kind::HEADERS, 0, 1, &head("/echo")), data(1, b"", true)].concat(), protocol),
        (
            [frame(kind::HEADERS, 0, 1, &head("/echo")), frame(kind::CONTINUATION, 4, 3, b"")].concat(),
            protocol,
        ),
        (frame(kind::CONTINUATION, flag::END_HEADERS, 1, b""), protocol),
        ([call(5, "/echo", b""), call(5, "/echo", b"")].concat(), Reason::STREAM_CLOSED),
        ([call(5, "/echo", b""), call(3, "/echo", b"")].concat(), Reason::STREAM_CLOSED),
        (frame(kind::RST_STREAM, 0, 1, &[0; 4]), protocol),
        (frame(kind::RST_STREAM, 0, 0, &[0; 4]), protocol),
        ([open(1, "/echo"), frame(kind::RST_STREAM, 0, 1, &[0; 3])].concat(), size),
        (frame(kind::SETTINGS, 0, 1, &[]), protocol),
        (frame(kind::SETTINGS, 0, 0, &[0; 5]), size),
        (frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), size),
        (settings(&[(setting::ENABLE_PUSH, 2)]), protocol),
        (settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]), Reason::FLOW_CONTROL_ERROR),
        (settings(&[(setting::MAX_FRAME_SIZE, 100)]), protocol),
        (frame(kind::PUSH_PROMISE, 4, 1, &[0; 4]), protocol),
        (frame(kind::PING, 0, 1, &[0; 8]), protocol),
        (frame(kind::PING, 0, 0, &[0; 7]), size),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), protocol),
        (window_update(0, 0), protocol),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), size),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), protocol),
        // A stream that never began cannot be reset.
        (frame(kind::PRIORITY, 0, 1, &[0; 4]), size),
    ];
    for (bytes, reason) in cases {
        Client::new(SETTINGS).expect_fault(&bytes, reason);
    }
    let mut long = frame(kind::DATA, 0, 1, &[]);
    long[..3].copy_from_slice(&[0, 0x40, 1]);
    Client::new(SETTINGS).expect_fault(&long, size);
}

#[test]
fn heads_that_are_no_request_end_their_stream() {
    let good = [(":method", "POST"), (":scheme", "http"), (":path", "/echo")];
    let with = |more: &[(&'static str, &'static str)]| [&good[..], more].concat();
    let cases = [
        vec![],
        good[1..].to_vec(),
        vec![good[0], good[1]],
        vec![good[0], good[2]],
        vec![good[0], good[1], (":path", "")],
        vec![good[0], good[1], (":path", "echo")],
        with(&[good[0]]),
        with(&[(":status", "200")]),
        with(&[("a", "b"), (":authority", "late")]),
        with(&[("Upper", "case")]),
        with(&[("in valid", "name")]),
        with(&[("a", "line\nbreak")]),
        with(&[("a", "nul\0")]),
        with(&[("connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("keep-alive", "1")]),
        with(&[("te", "gzip")]),
        with(&[("content-length", "+1")]),
        with(&[("content-length", "1"), ("content-length", "2")]),
        vec![(":method", "CONNECT"), (":authority", "t"), (":path", "/")],
    ];
    for fields in cases {
        let mut client = Client::new(SETTINGS);
        let bytes = frame(kind::HEADERS, END, 1, &block(&fields));
        client.expect_reset(&bytes, 1, Reason::PROTOCOL_ERROR);
        client.expect_echo(3);
    }
}

#[test]
fn a_body_has_the_length_that_was_announced() {
    let fields = |length: &str| {
        block(&[(":method", "POST"), (":scheme", "http"), (":path", "/echo"), ("content-length", length)])
    };
    let ask = |length: &str, body: &[u8]| {
        [frame(kind::HEADERS, flag::END_HEADERS, 1, &fields(length)), data(1, body, true)].concat()
    };
    let body = message(b"abc");
    assert_eq!(Client::new(SETTINGS).send(&ask("8", &body))[1].payload, body);
    for length in ["7", "9", "0"] {
        Client::new(SETTINGS).expect_reset(&ask(length, &body), 1, Reason::PROTOCOL_ERROR);
    }
    let none = frame(kind::HEADERS, END, 1, &fields("3"));
    Client::new(SETTINGS).expect_reset(&none, 1, Reason::PROTOCOL_ERROR);
}

#[test]
fn faults_that_end_one_stream() {
    let trailers = |fields: &[(&str, &str)], flags| frame(kind::HEADERS, flags, 1, &block(fields));
    let cases = [
        (trailers(&[("etag", "x")], flag::END_HEADERS), Reason::PROTOCOL_ERROR),
        (trailers(&[(":path", "/")], END), Reason::PROTOCOL_ERROR),
        (window_update(1, 0), Reason::PROTOCOL_ERROR),
        (window_update(1, (1 << 31) - 1), Reason::FLOW_CONTROL_ERROR),
        (frame(kind::PRIORITY, 0, 1, &[0; 4]), Reason::FRAME_SIZE_ERROR),
        (frame(kind::PRIORITY, 0, 1, &[0; 6]), Reason::FRAME_SIZE_ERROR),
    ];
    for (bytes, reason) in cases {
        let mut client = Client::new(SETTINGS);
        client.send(&open(1, "/echo"));
        client.expect_reset(&bytes, 1, reason);
        client.expect_echo(3);
    }
}

#[test]
fn nothing_follows_the_end_of_a_request() {
    let mut client = Client::new(SETTINGS);
    let blocked = settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
    client.send(&[blocked, call(1, "/echo", b"waits")].concat());
    client.expect_reset(&data(1, b"more", false), 1, Reason::STREAM_CLOSED);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 100)]));
    client.expect_echo(3);
    client.expect_reset(&data(3, b"more", false), 3, Reason::STREAM_CLOSED);
    client.expect_echo(5);
}

#[test]
fn whatever_comes_on_a_half_closed_stream_is_stream_closed() {
    let announced = |length: &str| {
        block(&[(":method", "POST"), (":scheme", "http"), (":path", "/echo"), ("content-length", length)])
    };
    let ended = message(b"waits");
    let requests = [
        call(1, "/echo", b"waits"),
        call(1, "/other", b"waits"),
        [frame(kind::HEADERS, flag::END_HEADERS, 1, &announced("10")), data(1, &ended, true)].concat(),
    ];
    let more = [
        data(1, b"more", false),
        data(1, b"", true),
        frame(kind::HEADERS, flag::END_HEADERS, 1, &head("/echo")),
        frame(kind::HEADERS, END, 1, &block(&[("etag", "x")])),
        frame(kind::HEADERS, END, 1, &block(&[(":path", "/")])),
    ];
    for request in &requests {
        for frame in &more {
            let mut client = Client::new(SETTINGS);
            client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]));
            client.send(request);
            assert_eq!(client.connection.open_streams(), 1, "the answer waits");
            client.expect_reset(frame, 1, Reason::STREAM_CLOSED);
            client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 100)]));
            client.expect_echo(3);
        }
    }
}

#[test]
fn a_request_has_at_most_a_hundred_headers() {
    let roomy = tidegate_http2::Settings { header_bytes: 64 << 10, ..SETTINGS };
    let ask = |count: usize| {
        let mut fields = vec![(":method", "POST"), (":scheme", "http"), (":path", "/echo")];
        fields.extend([("x", "y")].repeat(count));
        frame(kind::HEADERS, END, 1, &block(&fields))
    };
    for (count, status) in [(100, ":status=200"), (101, ":status=431"), (200, ":status=431")] {
        let mut client = Client::new(roomy);
        assert_eq!(client.send(&ask(count))[0].fields[0], status, "{count} headers");
        client.expect_echo(3);
    }
    let trailers = block(&[("x", "y")].repeat(101));
    let mut client = Client::new(roomy);
    client.send(&open(1, "/echo"));
    client.expect_reset(&frame(kind::HEADERS, END, 1, &trailers), 1, Reason::PROTOCOL_ERROR);
}
