//! What a connection holds and does for one client, at most.

use tidegate_http2::frame::{flag, kind, setting};
use tidegate_http2::{MemoryBudget, Reason, Settings};

use crate::support::{Client, SETTINGS, Seen, call, data, frame, head, open, settings, window_update};

const MANY: Settings = Settings { max_streams: 10_000, max_calls: 256, body_bytes: 100_000, ..SETTINGS };

fn refused(seen: &[Seen]) -> Option<Reason> {
    seen.iter().find(|seen| seen.kind == kind::RST_STREAM).map(|seen| Reason(seen.number(0)))
}

#[test]
fn calls_at_once_on_one_connection_are_bounded() {
    let mut client = Client::new(MANY);
    for number in 0..256 {
        assert_eq!(refused(&client.send(&open(2 * number + 1, "/other"))), None);
    }
    assert_eq!(refused(&client.send(&open(513, "/other"))), Some(Reason::REFUSED_STREAM));
    client.expect_echo(515);
    // One that ends makes room for another.
    client.send(&data(1, b"", true));
    assert_eq!(refused(&client.send(&open(517, "/other"))), None);
}

#[test]
fn connections_hold_no_more_than_their_common_budget() {
    let budget = MemoryBudget::new(1 << 20);
    let mut clients: Vec<Client> = (0..64).map(|_| Client::with_budget(MANY, &budget)).collect();
    let mut turned_away = 0;
    for client in &mut clients {
        // Bodies that never end, collected and passed on, and answers that are not taken.
        client.send(&settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]));
        for stream in (1..400).step_by(2) {
            let bytes = match stream % 6 {
                1 => [open(stream, "/echo"), data(stream, &[0; 4_000], false)].concat(),
                3 => open(stream, "/other"),
                _ => call(stream, "/size/5000", b""),
            };
            turned_away += usize::from(refused(&client.send(&bytes)).is_some());
        }
        assert!(budget.used() <= 1 << 20);
    }
    assert!(turned_away > 1_000, "{turned_away} streams were turned away");
    assert!(budget.used() > 900 << 10, "it is used");
    // What is whole when it comes is still answered, except by those that were sent away for what they did.
    let mut fresh = Client::with_budget(MANY, &budget);
    fresh.expect_echo(1);
    drop(clients);
    assert_eq!(budget.used(), 0, "all of it is given back");
}

#[test]
fn a_body_that_finds_no_memory_is_answered_and_not_reset() {
    let budget = MemoryBudget::new(1 << 20);
    let mut client = Client::with_budget(MANY, &budget);
    budget.pause(true);
    let seen = client.send(&[open(1, "/echo"), data(1, &[0; 4_000], false)].concat());
    assert_eq!(seen[0].fields, [":status=200", "grpc-message=NoRoom"]);
    client.expect_echo(3);
}

#[test]
fn health_is_answered_while_there_is_no_memory_for_others() {
    let budget = MemoryBudget::new(1 << 20);
    let mut client = Client::with_budget(MANY, &budget);
    budget.pause(true);
    assert_eq!(refused(&client.send(&open(1, "/other"))), Some(Reason::REFUSED_STREAM));
    assert_eq!(refused(&client.send(&open(3, "/health"))), None);
}

#[test]
fn what_ends_is_given_back_to_the_budget() {
    let budget = MemoryBudget::new(1 << 20);
    let mut client = Client::with_budget(MANY, &budget);
    for stream in (1..200).step_by(2) {
        let path = if stream % 4 == 1 { "/echo" } else { "/other" };
        client.send(&[open(stream, path), data(stream, b"\0\0\0\0\x02", false)].concat());
        assert!(budget.used() > 0);
        client.send(&data(stream, b"hi", true));
        assert_eq!(budget.used(), 0, "{path}");
    }
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn one_turn_does_a_bounded_amount_of_work() {
    let flood = |count: u32, bytes: &dyn Fn(u32) -> Vec<u8>| (0..count).flat_map(bytes).collect::<Vec<u8>>();
    let floods: [Vec<u8>; 4] = [
        flood(5_000, &|_| frame(kind::PING, 0, 0, &[0; 8])),
        flood(5_000, &|_| window_update(0, 1)),
        flood(1_000, &|number| call(2 * number + 1, "/echo", b"")),
        flood(1_000, &|number| {
            frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 2 * number + 1, &head("/other"))
        }),
    ];
    for bytes in floods {
        let mut client = Client::new(MANY);
        client.connection.start_turn();
        let mut turns = vec![client.connection.receive(&bytes, client.now)];
        assert!(client.connection.turn_is_over() && turns[0] < bytes.len());
        assert_eq!(client.connection.receive(&bytes[turns[0]..], client.now), 0, "nothing more in this turn");
        while turns.iter().sum::<usize>() < bytes.len() {
            client.connection.start_turn();
            turns.push(client.connection.receive(&bytes[turns.iter().sum()..], client.now));
            client.seen();
        }
        assert!(turns.len() > 2, "{turns:?}");
        assert_eq!(client.connection.fault(), None);
    }
}

#[test]
fn a_small_grant_sends_as_much_as_it_allows_and_no_more() {
    let mut client = Client::new(Settings { max_streams: 1024, ..SETTINGS });
    // The window of the connection is used up, those of the streams are not.
    for number in 0..1_024 {
        client.send(&call(2 * number + 1, "/size/95", b""));
    }
    let waiting = client.connection.open_streams();
    assert!(waiting > 300, "{waiting} answers wait");
    for _ in 0..100 {
        let seen = client.send(&window_update(0, 1));
        assert_eq!(
            seen.iter().map(|seen| (seen.kind, seen.payload.len())).collect::<Vec<_>>(),
            [(kind::DATA, 1)]
        );
        // More room on a stream is of no use while the connection has none.
        assert!(client.send(&window_update(2047, 1)).is_empty());
    }
    client.send(&window_update(0, 1 << 20));
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn answers_that_wait_have_their_turns() {
    let mut client = Client::new(Settings { max_streams: 1024, ..SETTINGS });
    client.send(&call(1, "/size/65530", b""));
    for stream in [3, 5, 7] {
        client.send(&call(stream, "/size/95", b""));
    }
    assert_eq!(client.connection.open_streams(), 3);
    let seen = client.send(&window_update(0, 150));
    let sent = |stream| -> usize {
        let of = seen.iter().filter(|seen| seen.kind == kind::DATA && seen.stream == stream);
        of.map(|seen| seen.payload.len()).sum()
    };
    assert_eq!([sent(3), sent(5), sent(7)], [100, 50, 0]);
    let seen = client.send(&window_update(0, 100));
    assert_eq!(
        seen.iter().filter(|seen| seen.kind == kind::DATA).map(|seen| seen.stream).collect::<Vec<_>>(),
        [7]
    );
}
