//! Flow control, both ways.

use tidegate_http2::Reason;
use tidegate_http2::frame::{flag, kind, setting};

use crate::support::{Client, SETTINGS, Seen, call, data, frame, message, open, settings, window_update};

fn sent(seen: &[Seen], stream: u32) -> usize {
    seen.iter()
        .filter(|seen| seen.kind == kind::DATA && seen.stream == stream)
        .map(|seen| seen.payload.len())
        .sum()
}

#[test]
fn an_answer_waits_for_the_window_of_its_stream() {
    let mut client = Client::new(SETTINGS);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 3)]));
    let seen = client.send(&call(1, "/echo", b"hello"));
    assert_eq!((sent(&seen, 1), seen.len()), (3, 2), "the head, and a piece");
    assert_eq!(sent(&client.send(&window_update(1, 2)), 1), 2);
    // The window may become negative, and has to be filled first.
    assert!(!client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 1)])).is_empty());
    assert_eq!(sent(&client.send(&window_update(1, 2)), 1), 0);
    let seen = client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 100)]));
    assert_eq!((sent(&seen, 1), seen.last().map(Seen::ends)), (5, Some(true)));
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn answers_wait_for_the_window_of_the_connection() {
    let mut client = Client::new(SETTINGS);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)]));
    let mut left = 65_535;
    for stream in [1, 3, 5] {
        let seen = client.send(&call(stream, "/size/29995", b""));
        let expected = left.min(30_000);
        assert_eq!(sent(&seen, stream), expected);
        left -= expected;
        assert!(seen.iter().all(|seen| seen.payload.len() <= 16_384), "no frame is too long");
    }
    let seen = client.send(&window_update(0, 100_000));
    assert_eq!((sent(&seen, 5), seen.last().map(Seen::ends)), (24_465, Some(true)));
    client.expect_echo(7);
}

#[test]
fn a_streamed_answer_waits_too() {
    let mut client = Client::new(SETTINGS);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 4)]));
    let seen =
        client.send(&[open(1, "/other"), data(1, b"0123456789", false), data(1, b"abc", true)].concat());
    assert_eq!(sent(&seen, 1), 4);
    let seen = client.send(&window_update(1, 100));
    assert_eq!((sent(&seen, 1), seen.last().map(Seen::ends)), (9, Some(true)));
}

#[test]
fn windows_do_not_overflow() {
    let most = (1 << 31) - 1;
    Client::new(SETTINGS).expect_fault(&window_update(0, most), Reason::FLOW_CONTROL_ERROR);
    let mut client = Client::new(SETTINGS);
    client.send(&[open(1, "/echo"), window_update(1, 1000)].concat());
    let bytes = settings(&[(setting::INITIAL_WINDOW_SIZE, most)]);
    client.expect_fault(&bytes, Reason::FLOW_CONTROL_ERROR);
}

/// Sends so many bytes on one stream as long as they are granted.
#[test]
fn a_client_that_reads_its_answers_may_send_for_ever() {
    let mut client = Client::new(SETTINGS);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, (1 << 31) - 1)]));
    client.send(&window_update(0, (1 << 31) - 1 - 65_535));
    let (mut stream_window, mut window) = (1_i64 << 20, 4_i64 << 20);
    client.send(&open(1, "/other"));
    let piece = frame(kind::DATA, flag::PADDED, 1, &[&[99][..], &[7; 10_000], &[0; 99]].concat());
    for _ in 0..2_000 {
        (stream_window, window) = (stream_window - 10_100, window - 10_100);
        assert!(stream_window >= 0 && window >= 0, "it would have to wait for ever");
        for seen in client.send(&piece) {
            match (seen.kind, seen.stream) {
                (kind::WINDOW_UPDATE, 0) => window += i64::from(seen.number(0)),
                (kind::WINDOW_UPDATE, 1) => stream_window += i64::from(seen.number(0)),
                _ => assert_eq!(seen.kind, kind::DATA),
            }
        }
    }
    client.expect_echo(3);
}

#[test]
fn a_client_may_call_for_ever() {
    let mut client = Client::new(SETTINGS);
    let (mut window, mut theirs) = (4_i64 << 20, 65_535_i64);
    for number in 0..10_000 {
        let stream = 2 * number + 1;
        let body = message(&[b'a'; 900]);
        window -= 905;
        for seen in client.send(&[open(stream, "/echo"), data(stream, &body, true)].concat()) {
            match seen.kind {
                kind::WINDOW_UPDATE => window += i64::from(seen.number(0)),
                kind::DATA => theirs -= 905,
                _ => {}
            }
        }
        assert!(window >= 0 && theirs >= 0);
        if theirs < 2_000 {
            client.send(&window_update(0, 60_000));
            theirs += 60_000;
        }
    }
}

#[test]
fn whoever_sends_more_than_was_granted_is_sent_away() {
    let mut client = Client::new(SETTINGS);
    // Nobody reads the answer, so nobody reads the request.
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]));
    client.send(&open(1, "/other"));
    let mut reset = None;
    for _ in 0..200 {
        let seen = client.send(&data(1, &[0; 16_000], false));
        reset = reset.or(seen.into_iter().find(|seen| seen.kind == kind::RST_STREAM));
    }
    assert_eq!(reset.expect("it is reset").number(0), Reason::FLOW_CONTROL_ERROR.0);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 100)]));
    client.expect_echo(3);
}

#[test]
fn bodies_that_are_held_count_against_the_connection() {
    let settings = tidegate_http2::Settings { max_streams: 10_000, body_bytes: 100_000, ..SETTINGS };
    let mut client = Client::new(settings);
    let mut held = 0;
    for stream in (1..).step_by(2) {
        let seen = client.send(&[open(stream, "/echo"), data(stream, &[0; 16_000], false)].concat());
        held += 16_000;
        if client.connection.fault().is_some() {
            assert_eq!(seen.last().expect("a farewell").number(4), Reason::FLOW_CONTROL_ERROR.0);
            break;
        }
        assert!(held <= 4 << 20, "no more is held than was granted");
    }
}
