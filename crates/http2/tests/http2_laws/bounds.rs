//! What a connection holds and does for one client, at most.

use tidegate_http2::frame::{flag, kind, setting};
use tidegate_http2::{MemoryBudget, Reason, Settings};

use crate::support::{
    Client, SETTINGS, Seen, TURN_WORK, block, call, data, frame, head, message, open, settings, window_update,
};

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

/// Passes all of it in turns, and returns how many bytes each has taken.
fn in_turns(client: &mut Client, mut bytes: &[u8]) -> Vec<usize> {
    let mut turns = Vec::new();
    while !bytes.is_empty() {
        client.connection.start_turn(TURN_WORK);
        let taken = client.connection.receive(bytes, client.now);
        turns.push(taken);
        bytes = &bytes[taken..];
        if client.connection.turn_is_over() {
            assert_eq!(client.connection.receive(bytes, client.now), 0, "nothing more in this turn");
        }
        client.seen();
    }
    turns
}

/// Makes one piece of a flood, by its number.
type Piece<'a> = &'a dyn Fn(u32) -> Vec<u8>;

#[test]
fn one_turn_does_a_bounded_amount_of_work() {
    const END: u8 = flag::END_HEADERS | flag::END_STREAM;
    let long = |number| {
        let value = "y".repeat(3_000);
        let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/other"), ("x", &*value)];
        frame(kind::HEADERS, END, 2 * number + 1, &block(&fields))
    };
    let new_call = |number| frame(kind::HEADERS, END, 2 * number + 1, &head("/other"));
    // How many are sent, and at most so many of them are taken in one turn.
    let floods: [(u32, usize, Piece<'_>); 6] = [
        (2_000, 512, &|_| frame(kind::PING, 0, 0, &[0; 8])),
        (2_000, 512, &|_| window_update(0, 1)),
        (1_000, 100, &|number| call(2 * number + 1, "/echo", b"")),
        (1_000, 30, &new_call),
        (200, 2, &long),
        (50, 2, &|number| call(2 * number + 1, "/echo", &[0; 16_000])),
    ];
    for (count, most, bytes) in floods {
        let flood: Vec<u8> = (0..count).flat_map(bytes).collect();
        let each = flood.len() / count as usize;
        let mut client = Client::new(MANY);
        let turns = in_turns(&mut client, &flood);
        assert!(turns.iter().all(|taken| *taken <= most * each), "{most} of {each} bytes: {turns:?}");
        assert_eq!(client.connection.fault(), None);
    }
}

#[test]
fn an_operation_that_takes_more_than_a_turn_is_told_to_the_next_ones() {
    let mut client = Client::new(MANY);
    client.connection.start_turn(TURN_WORK);
    // A body of 96 kB in 16 kB pieces.
    let message = message(&vec![0; 96_000]);
    let mut bytes = open(1, "/echo");
    message.chunks(16_000).for_each(|piece| bytes.extend(data(1, piece, false)));
    bytes.extend(data(1, b"", true));
    let taken = client.connection.receive(&bytes, client.now);
    assert_eq!(taken, bytes.len());
    assert!(client.connection.work_done() > 4 * TURN_WORK, "{}", client.connection.work_done());
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

/// A head for `path` with these fields, in frames of at most 16,000 bytes.
fn head_with(path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let start = [(":method", "POST"), (":scheme", "http"), (":path", path)];
    let block = block(&[&start[..], fields].concat());
    let pieces: Vec<&[u8]> = block.chunks(16_000).collect();
    let mut bytes = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let (kind, begins) =
            if index == 0 { (kind::HEADERS, flag::END_STREAM) } else { (kind::CONTINUATION, 0) };
        let ends = if index + 1 == pieces.len() { flag::END_HEADERS } else { 0 };
        bytes.extend(frame(kind, begins | ends, 1, piece));
    }
    bytes
}

#[test]
fn headers_beyond_a_bound_are_left_out_where_the_service_does_without_them() {
    let (long, longer) = ("x".repeat(5_000), "x".repeat(120_000));
    let many = [("x", "y")].repeat(200);
    for fields in [&[("x", &*long)][..], &[("x", &*longer)], &many] {
        for (path, status) in [("/cut", ":status=200"), ("/echo", ":status=431"), ("/other", ":status=431")] {
            let mut client = Client::new(SETTINGS);
            assert_eq!(client.send(&head_with(path, fields))[0].fields[0], status, "{path}");
            client.expect_echo(3);
        }
    }
    // The path is not left out: nobody would know who is to answer.
    let mut client = Client::new(SETTINGS);
    assert_eq!(client.send(&head_with(&format!("/{long}"), &[]))[0].fields[0], ":status=431");
}

#[test]
fn a_long_header_block_is_held_within_the_common_budget() {
    let budget = MemoryBudget::new(100 << 10);
    let long = head_with("/cut", &[("x", &"x".repeat(120_000))]);
    let most = long.len() - 20_000;
    let mut first = Client::with_budget(SETTINGS, &budget);
    assert!(first.send(&long[..most]).is_empty());
    assert!((60 << 10..100 << 10).contains(&budget.used()), "{}", budget.used());
    let mut second = Client::with_budget(SETTINGS, &budget);
    let farewell = second.send(&long[..most]).pop().expect("a farewell");
    assert_eq!((farewell.kind, Reason(farewell.number(4))), (kind::GOAWAY, Reason::ENHANCE_YOUR_CALM));
    assert_eq!(first.send(&long[most..])[0].fields[0], ":status=200");
    assert_eq!(budget.used(), 0, "all of it is given back");
}
