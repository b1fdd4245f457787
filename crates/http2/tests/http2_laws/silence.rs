//! Clients that say nothing.

use std::time::Duration;

use tidegate_http2::Settings;
use tidegate_http2::frame::{flag, kind};

use crate::support::{Client, SETTINGS, data, frame, message, open};

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
    assert_eq!(client.connection.open_streams(), 1, "a body that streams may take its time");
    wait(&mut client);
    assert_eq!(client.connection.wake_at(), None);
}
