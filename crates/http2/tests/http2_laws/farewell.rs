//! How a connection ends well.

use tidegate_http2::Reason;
use tidegate_http2::frame::{MAX_NUMBER, PREFACE, flag, kind};

use crate::support::{Client, SETTINGS, call, data, frame, message, open};

/// Asks the client to go; answers the ping it has to acknowledge.
fn announced(client: &mut Client) -> Vec<u8> {
    client.connection.graceful_shutdown();
    let seen = client.seen();
    assert_eq!(
        (seen[0].kind, seen[0].number(0), seen[0].number(4)),
        (kind::GOAWAY, MAX_NUMBER, Reason::NO_ERROR.0)
    );
    assert_eq!((seen[1].kind, seen[1].flags), (kind::PING, 0));
    frame(kind::PING, flag::ACK, 0, &seen[1].payload)
}

#[test]
fn requests_that_were_on_their_way_are_answered() {
    let mut client = Client::new(SETTINGS);
    client.send(&open(1, "/echo"));
    let ack = announced(&mut client);
    client.expect_echo(3);
    let seen = client.send(&ack);
    assert_eq!((seen[0].kind, seen[0].number(0)), (kind::GOAWAY, 3), "the last one that is looked at");
    assert!(!client.connection.is_over(), "one is still open");
    assert!(client.send(&call(5, "/echo", b"too late")).is_empty());
    assert!(client.send(&open(7, "/other")).is_empty());
    assert!(client.send(&[data(7, b"", true), open(7, "/other")].concat()).is_empty());
    let seen = client.send(&data(1, &message(b"in time"), true));
    assert_eq!(seen[1].payload, message(b"in time"));
    assert!(client.connection.is_over());
    assert_eq!(client.connection.fault(), None);
}

#[test]
fn asking_twice_is_asking_once() {
    let mut client = Client::new(SETTINGS);
    let ack = announced(&mut client);
    client.connection.graceful_shutdown();
    assert!(client.seen().is_empty());
    client.send(&ack);
    client.connection.graceful_shutdown();
    assert!(client.seen().is_empty() && client.connection.is_over());
}

#[test]
fn a_client_that_never_spoke_is_left_at_once() {
    for greeting in [&b""[..], &PREFACE[..10]] {
        let mut client = Client::silent(SETTINGS);
        client.connection.receive(greeting, client.now);
        client.connection.graceful_shutdown();
        assert!(client.connection.is_over());
    }
}

#[test]
fn a_client_that_goes_is_still_answered() {
    let mut client = Client::new(SETTINGS);
    client.send(&open(1, "/echo"));
    assert!(client.send(&frame(kind::GOAWAY, 0, 0, &[0; 8])).is_empty());
    let seen = client.send(&data(1, &message(b"a"), true));
    assert_eq!(seen[1].payload, message(b"a"));
}
