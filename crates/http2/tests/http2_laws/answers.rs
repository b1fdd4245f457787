//! What goes out.

use http::StatusCode;
use tidegate_http2::frame::{flag, kind, setting};

use crate::support::{Client, SETTINGS, call, data, message, open, settings};

const OK: [&str; 2] = [":status=200", "content-type=application/grpc"];

#[test]
fn a_call_is_answered_by_a_head_a_message_and_trailers() {
    let mut client = Client::new(SETTINGS);
    for stream in [1, 3, 5] {
        let seen = client.send(&call(stream, "/echo", b"hello"));
        let [head, body, trailers] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(
            (head.kind, head.stream, head.flags, &head.fields[..]),
            (kind::HEADERS, stream, flag::END_HEADERS, &OK.map(str::to_owned)[..])
        );
        assert_eq!(
            (body.kind, body.stream, body.flags, &body.payload[..]),
            (kind::DATA, stream, 0, &message(b"hello")[..])
        );
        assert_eq!(
            (trailers.kind, trailers.ends(), &*trailers.fields[0]),
            (kind::HEADERS, true, "grpc-status=0")
        );
    }
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn a_refusal_is_headers_that_end_the_stream() {
    let seen = Client::new(SETTINGS).send(&call(1, "/refuse", b"hello"));
    assert_eq!((seen.len(), seen[0].ends()), (1, true));
    assert_eq!(seen[0].fields, [":status=200", "grpc-message=as you wish"]);
}

#[test]
fn an_answer_that_takes_long_holds_up_nobody() {
    let mut client = Client::new(SETTINGS);
    let bytes = [call(1, "/later", b"slow"), call(3, "/echo", b"quick")].concat();
    let seen = client.send(&bytes);
    let bodies: Vec<_> = seen.iter().filter(|seen| seen.kind == kind::DATA).collect();
    assert_eq!(bodies.iter().map(|seen| seen.stream).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(bodies[1].payload, message(b"slow"));
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn every_other_request_streams_both_ways() {
    let mut client = Client::new(SETTINGS);
    let seen = client.send(&open(1, "/other"));
    assert_eq!(seen[0].fields, [":status=200", "path=/other"]);
    let seen = client.send(&data(1, b"one", false));
    assert_eq!((&seen[0].payload[..], seen[0].ends()), (&b"one"[..], false));
    client.expect_echo(3);
    let seen = client.send(&data(1, b"two", true));
    assert_eq!(seen[0].payload, b"two");
    assert_eq!((seen[1].kind, seen[1].ends(), &*seen[1].fields[0]), (kind::HEADERS, true, "etag=end"));
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn a_client_whose_table_shrinks_is_told_that_none_is_used() {
    for first in ["/echo", "/other", "/refuse"] {
        let mut client = Client::new(SETTINGS);
        client.send(&settings(&[(setting::HEADER_TABLE_SIZE, 100)]));
        let seen = client.send(&call(1, first, b""));
        assert_eq!(seen[0].payload[0], 0x20, "{first}");
        assert_eq!(seen[0].fields[0], ":status=200");
        let seen = client.send(&call(3, first, b""));
        assert_ne!(seen[0].payload[0], 0x20, "once is enough");
    }
}

#[test]
fn headers_that_are_too_large_are_said_to_be() {
    let mut client = Client::new(SETTINGS);
    let long = format!("/{}", "x".repeat(5_000));
    let seen = client.send(&call(1, &long, b""));
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    assert_eq!(seen[0].fields, [format!(":status={}", status.as_str())]);
    client.expect_echo(3);
}
