//! Clients that cost more than they are worth.

use std::time::Duration;

use tidegate_http2::Reason;
use tidegate_http2::frame::{flag, kind, setting};

use crate::support::{
    Client, SETTINGS, TURN_WORK, call, data, frame, head, open, reset, settings, window_update,
};

/// Sends the same again and again until the connection ends; answers how often.
fn repeat(client: &mut Client, most: u32, bytes: impl Fn(u32) -> Vec<u8>) -> u32 {
    for number in 0..most {
        client.send(&bytes(number));
        if let Some(fault) = client.connection.fault() {
            assert_eq!(fault.reason, Reason::ENHANCE_YOUR_CALM);
            return number;
        }
    }
    most
}

#[test]
fn opening_and_resetting_streams_in_a_row_ends_the_connection() {
    for path in ["/echo", "/other"] {
        let bytes = |number| [open(2 * number + 1, path), reset(2 * number + 1)].concat();
        assert!(repeat(&mut Client::new(SETTINGS), 1_000, bytes) < 200);
    }
}

#[test]
fn giving_up_after_having_waited_is_no_flood() {
    let mut client = Client::new(SETTINGS);
    for number in 0..10_000 {
        let stream = 2 * number + 1;
        client.connection.out().clear();
        let opened = open(stream, "/echo");
        client.send(&opened);
        client.now += Duration::from_millis(20);
        client.send(&reset(stream));
    }
    assert_eq!(client.connection.fault(), None);
}

#[test]
fn frames_that_ask_for_nothing_are_bounded() {
    let empty = |_| data(1, b"", false);
    let cases: [fn(u32) -> Vec<u8>; 4] = [
        |_| settings(&[]),
        |_| frame(kind::PING, 0, 0, &[0; 8]),
        |_| frame(0xee, 0, 0, &[]),
        |_| frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
    ];
    for bytes in cases {
        assert!(repeat(&mut Client::new(SETTINGS), 50_000, bytes) < 25_000);
    }
    for path in ["/echo", "/other"] {
        let mut client = Client::new(SETTINGS);
        client.send(&open(1, path));
        assert!(repeat(&mut client, 50_000, empty) < 25_000);
    }
    let mut client = Client::new(SETTINGS);
    client.send(&frame(kind::HEADERS, 0, 1, &head("/echo")));
    assert!(repeat(&mut client, 50_000, |_| frame(kind::CONTINUATION, 0, 1, b"")) < 25_000);
}

#[test]
fn pings_now_and_then_are_no_flood() {
    let mut client = Client::new(SETTINGS);
    for _ in 0..100_000 {
        client.now += Duration::from_millis(1);
        let seen = client.send(&frame(kind::PING, 0, 0, b"12345678"));
        assert_eq!(
            (seen[0].kind, seen[0].flags, &seen[0].payload[..]),
            (kind::PING, flag::ACK, &b"12345678"[..])
        );
    }
}

#[test]
fn granting_a_piece_at_a_time_is_no_flood() {
    let mut client = Client::new(SETTINGS);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 256)]));
    for number in 0..1_000 {
        let stream = 2 * number + 1;
        client.send(&call(stream, "/size/5000", b""));
        while client.connection.open_streams() > 0 {
            let more = [window_update(0, 512), window_update(stream, 256), frame(kind::PING, 0, 0, &[0; 8])];
            client.send(&more.concat());
            assert_eq!(client.connection.fault(), None);
        }
    }
}

#[test]
fn granting_one_byte_after_the_other_ends_the_connection() {
    let mut client = Client::new(SETTINGS);
    client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 1)]));
    client.send(&call(1, "/size/60000", b""));
    assert!(repeat(&mut client, 50_000, |_| window_update(1, 1)) < 25_000);
}

#[test]
fn requests_that_nobody_answers_end_the_connection() {
    let bytes =
        |number| frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 2 * number + 1, &head("/nobody"));
    let taken = repeat(&mut Client::new(SETTINGS), 10_000, bytes);
    assert!((500..2_500).contains(&taken), "{taken}");
    // Now and then they are answered, and so are those that are refused for another reason.
    let mut client = Client::new(SETTINGS);
    for number in 0..5_000 {
        client.now += Duration::from_millis(1);
        client.send(&bytes(number));
    }
    assert_eq!(client.connection.fault(), None);
    let refused = |number| call(2 * number + 1, "/refuse", b"");
    assert_eq!(repeat(&mut Client::new(SETTINGS), 10_000, refused), 10_000);
}

#[test]
fn calls_of_what_is_not_collected_are_bounded() {
    let bytes =
        |number| frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 2 * number + 1, &head("/other"));
    let taken = repeat(&mut Client::new(SETTINGS), 20_000, bytes);
    assert!((1_000..10_000).contains(&taken), "{taken}");
}

#[test]
fn an_endless_header_block_ends_the_connection() {
    let mut client = Client::new(SETTINGS);
    client.send(&frame(kind::HEADERS, 0, 1, &head("/echo")));
    assert!(repeat(&mut client, 1_000, |_| frame(kind::CONTINUATION, 0, 1, &[0; 1_000])) < 132);
}

#[test]
fn a_client_that_does_not_read_makes_the_connection_full() {
    let mut client = Client::new(SETTINGS);
    client.connection.receive(&frame(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]), client.now);
    let mut number = 0;
    while !client.connection.is_full() {
        number += 1;
        let bytes = call(2 * number + 1, "/echo", &[b'x'; 900]);
        client.connection.start_turn(TURN_WORK);
        assert_eq!(client.connection.receive(&bytes, client.now), bytes.len());
    }
    assert!(client.connection.out().len() < 300_000, "what one read may add is all there is beyond");
}
