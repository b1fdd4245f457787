//! What comes in.

use tidegate_http2::Reason;
use tidegate_http2::frame::{flag, kind};

use crate::support::{Client, SETTINGS, block, call, data, frame, head, message, open, reset};

#[test]
fn blocks_and_bodies_may_come_in_any_number_of_frames() {
    let mut client = Client::new(SETTINGS);
    let head = head("/echo");
    let mut bytes = frame(kind::HEADERS, 0, 1, &head[..3]);
    bytes.extend(frame(kind::CONTINUATION, 0, 1, &head[3..4]));
    bytes.extend(frame(kind::CONTINUATION, flag::END_HEADERS, 1, &head[4..]));
    let message = message(b"hello");
    for byte in &message {
        bytes.extend(data(1, &[*byte], false));
    }
    assert!(client.send(&bytes).is_empty());
    let seen = client.send(&data(1, b"", true));
    assert_eq!(seen[1].payload, message);
}

#[test]
fn padding_priority_and_unknown_frames_are_passed_over() {
    let mut client = Client::new(SETTINGS);
    let padded = [&[3][..], &[0; 5], &head("/echo"), &[0; 3]].concat();
    let flags = flag::END_HEADERS | flag::PADDED | flag::PRIORITY;
    let mut bytes = frame(kind::HEADERS, flags, 1, &padded);
    bytes.extend(frame(kind::PRIORITY, 0, 1, &[0; 5]));
    bytes.extend(frame(0xab, 0xff, 7, b"whatever"));
    let body = [&[2][..], &message(b"hello"), &[0; 2]].concat();
    bytes.extend(frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, &body));
    assert_eq!(client.send(&bytes)[1].payload, message(b"hello"));
}

#[test]
fn trailers_end_a_request() {
    let mut client = Client::new(SETTINGS);
    let end = flag::END_HEADERS | flag::END_STREAM;
    let mut bytes = [open(1, "/echo"), data(1, &message(b"a"), false)].concat();
    bytes.extend(frame(kind::HEADERS, end, 1, &block(&[("etag", "x")])));
    assert_eq!(client.send(&bytes)[1].payload, message(b"a"));
    let bytes = [open(3, "/other"), frame(kind::HEADERS, end, 3, &block(&[("etag", "x")]))].concat();
    let seen = client.send(&bytes);
    // The body passes them on, and then has its own.
    assert_eq!(seen.last().map(|seen| (seen.kind, seen.ends())), Some((kind::HEADERS, true)));
}

#[test]
fn a_call_without_a_body_is_answered() {
    let mut client = Client::new(SETTINGS);
    let bytes = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &head("/echo"));
    assert_eq!(client.send(&bytes)[1].payload, message(b""));
}

#[test]
fn a_known_block_is_understood_anew_when_the_table_changes() {
    let mut client = Client::new(SETTINGS);
    let path = |path: &[u8]| [b"\x44", &[path.len() as u8][..], path].concat();
    // `:path` is added to the table as number 62, and then referred to.
    let ask = |client: &mut Client, stream: u32, path: &[u8]| {
        let block = [b"\x83\x86", path].concat();
        let bytes =
            [frame(kind::HEADERS, flag::END_HEADERS, stream, &block), data(stream, &message(b"a"), true)];
        client.send(&bytes.concat())[0].fields.clone()
    };
    let ok = [":status=200", "content-type=application/grpc"];
    assert_eq!(ask(&mut client, 1, &path(b"/echo")), ok);
    for stream in [3, 5, 7] {
        assert_eq!(ask(&mut client, stream, b"\xbe"), ok);
    }
    assert_eq!(ask(&mut client, 9, &path(b"/refuse")), [":status=200", "grpc-message=as you wish"]);
    assert_eq!(ask(&mut client, 11, b"\xbe"), [":status=200", "grpc-message=as you wish"]);
}

#[test]
fn streams_beyond_the_bound_are_refused_and_may_be_tried_again() {
    let mut client = Client::new(SETTINGS);
    for stream in (1..20).step_by(2) {
        assert!(client.send(&open(stream, "/echo")).is_empty());
    }
    client.expect_reset(&open(21, "/echo"), 21, Reason::REFUSED_STREAM);
    assert!(client.send(&data(21, b"on its way", true)).is_empty());
    client.send(&reset(1));
    client.expect_echo(23);
}

#[test]
fn a_body_that_is_too_long_is_answered_before_it_ends() {
    let mut client = Client::new(SETTINGS);
    let bytes = [open(1, "/echo"), data(1, &[0; 600], false), data(1, &[0; 600], false)].concat();
    let seen = client.send(&bytes);
    assert_eq!(seen[0].fields, [":status=200", "grpc-message=TooLong"]);
    assert_eq!((seen[1].kind, seen[1].number(0)), (kind::RST_STREAM, Reason::NO_ERROR.0));
    assert!(client.send(&data(1, &[0; 600], true)).is_empty(), "what was on its way is passed over");
    let one = [open(3, "/echo"), data(3, &[0; 1001], true)].concat();
    assert_eq!(client.send(&one)[0].fields, [":status=200", "grpc-message=TooLong"]);
    client.expect_echo(5);
}

#[test]
fn a_reset_ends_a_call_whatever_its_state() {
    let mut client = Client::new(SETTINGS);
    for (stream, path) in [(1, "/echo"), (3, "/other")] {
        client.send(&open(stream, path));
        assert!(client.send(&reset(stream)).is_empty());
    }
    let seen = client.send(&[call(5, "/later", b"a"), reset(5)].concat());
    assert!(seen.is_empty(), "{seen:?}");
    assert!(client.send(&reset(5)).is_empty(), "twice is no fault");
    assert_eq!(client.connection.open_streams(), 0);
    client.expect_echo(7);
}
