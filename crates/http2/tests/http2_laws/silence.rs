//! Clients that say nothing.

use std::time::Duration;

use tidegate_http2::frame::{flag, kind, setting};
use tidegate_http2::{Reason, Settings};

use crate::support::{Client, SETTINGS, call, data, frame, message, open, settings, window_update};

const KEPT: Settings =
    Settings { keep_alive: Some((Duration::from_secs(30), Duration::from_secs(20))), ..SETTINGS };

/// Lets time pass until something is due, and does it.
fn wait(client: &mut Client) {
    client.now = client.connection.wake_at().expect("something is due");
    client.connection.on_time(client.now);
}

#[test]
fn a_silent_client_is_pinged_and_then_given_up() {
    let mut client = Client::new(KEPT);
    let begin = client.now;
    wait(&mut client);
    assert_eq!(client.now - begin, Duration::from_secs(30));
    let seen = client.seen();
    assert_eq!((seen[0].kind, seen[0].flags), (kind::PING, 0));
    client.send(&frame(kind::PING, flag::ACK, 0, &seen[0].payload));
    wait(&mut client);
    wait(&mut client);
    assert_eq!(client.seen()[0].kind, kind::PING, "it answered, so it is asked again");
    wait(&mut client);
    assert_eq!(client.now - begin, Duration::from_secs(30 + 30 + 20));
    assert!(client.connection.is_over());
}

#[test]
fn a_client_that_talks_is_not_pinged() {
    let mut client = Client::new(KEPT);
    for stream in (1..40).step_by(2) {
        client.now += Duration::from_secs(10);
        client.connection.on_time(client.now);
        assert!(client.seen().is_empty());
        client.expect_echo(stream);
    }
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    let mut client = Client::new(SETTINGS);
    assert_eq!(client.connection.wake_at(), None);
    client.send(&[open(1, "/echo"), data(1, b"\0", false)].concat());
    client.now += Duration::from_secs(4);
    client.send(&open(3, "/echo"));
    client.send(&open(5, "/other"));
    wait(&mut client);
    let seen = client.seen();
    assert_eq!((seen[0].stream, &seen[0].fields[1..]), (1, &["grpc-message=Late(10s)".to_owned()][..]));
    assert_eq!(seen[1].kind, kind::RST_STREAM);
    client.send(&data(3, &message(b"in time"), true));
    assert_eq!(client.connection.open_streams(), 1);
    wait(&mut client);
    let seen = client.seen();
    let last = seen.last().expect("a reset");
    assert_eq!((last.kind, last.stream, last.number(0)), (kind::RST_STREAM, 5, Reason::CANCEL.0));
    assert_eq!(client.connection.open_streams(), 0, "a body that is passed on has no more time");
    assert_eq!(client.connection.wake_at(), None);
}

#[test]
fn a_body_that_drips_is_given_up_all_the_same() {
    for path in ["/echo", "/other"] {
        let mut client = Client::new(SETTINGS);
        client.send(&open(1, path));
        for _ in 0..12 {
            client.now += Duration::from_secs(1);
            client.connection.on_time(client.now);
            client.seen();
            client.send(&data(1, b"x", false));
        }
        assert_eq!(client.connection.open_streams(), 0, "{path}");
        assert_eq!(client.connection.fault(), None);
    }
}

#[test]
fn an_answer_that_is_not_taken_is_given_up() {
    for path in ["/echo", "/other"] {
        let mut client = Client::new(SETTINGS);
        client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 2)]));
        client.send(&call(1, path, b"waits"));
        // As long as something of it is taken, it is sent.
        for _ in 0..3 {
            client.now += Duration::from_secs(9);
            client.connection.on_time(client.now);
            client.send(&window_update(1, 1));
            assert_eq!(client.connection.open_streams(), 1, "{path}");
        }
        let taken = client.now;
        while client.connection.open_streams() > 0 {
            wait(&mut client);
        }
        assert!(client.now - taken <= Duration::from_secs(20), "{:?}", client.now - taken);
        let seen = client.seen();
        assert_eq!((seen[0].kind, seen[0].number(0)), (kind::RST_STREAM, Reason::CANCEL.0), "{path}");
        assert_eq!(client.connection.open_streams(), 0);
        client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 100)]));
        client.expect_echo(3);
    }
}

#[test]
fn a_client_that_is_gone_is_sent_one_farewell() {
    let mut client = Client::new(KEPT);
    for _ in 0..5 {
        client.now += Duration::from_mins(1);
        client.connection.on_time(client.now);
    }
    let farewells = client.seen().iter().filter(|seen| seen.kind == kind::GOAWAY).count();
    assert_eq!(farewells, 1);
    assert_eq!(client.connection.wake_at(), None, "there is nothing left to wait for");
}
