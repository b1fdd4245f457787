//! Rare but valid uses of the protocols.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use tidegate_load::payload::{Answer, Check, Decision, EnvoyRateLimit, Payload, Speaks};
use tidegate_load::{Endpoint, Keys, Plan};

use crate::peer::{Peer, listen};
use crate::server::{Reply, Server, Setup};
use crate::{drive, plan_of};

fn envoy() -> EnvoyRateLimit {
    EnvoyRateLimit::new("api", "user")
}

/// Forwards bytes; those of the server in pieces of one to three.
fn in_tiny_pieces(server: &Endpoint) -> Endpoint {
    let &Endpoint::Tcp(addr) = server else { panic!("not over TCP") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
    let pass = |mut from: TcpStream, mut to: TcpStream, piece: usize| {
        to.set_nodelay(true).unwrap();
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            for (number, piece) in buffer[..bytes].chunks(piece).enumerate() {
                if to.write_all(piece).is_err() {
                    return;
                }
                // Lets the reader see this piece by itself, now and then.
                if number % 7 == 0 {
                    std::thread::yield_now();
                }
            }
        }
    };
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(addr).unwrap();
            let (client_in, server_in) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pass(client_in, server, 4096));
            std::thread::spawn(move || pass(server_in, client, 3));
        }
    });
    endpoint
}

#[test]
fn answers_in_tiny_pieces_are_put_together() {
    let server = Server::start(Setup::grpc(|_| Reply::grpc(true)));
    let plan = plan_of(&in_tiny_pieces(&server.endpoint), 2, 8, 500);
    let report = drive(&plan, &mut envoy()).unwrap();
    assert_eq!((report.allowed, report.errors), (500, 0));

    let server = Server::start(Setup::http(|_| Reply::http(200)));
    let plan = plan_of(&in_tiny_pieces(&server.endpoint), 2, 1, 300);
    let report = drive(&plan, &mut Check::new("localhost", "api", "user")).unwrap();
    assert_eq!((report.allowed, report.errors), (300, 0));
}

#[test]
fn chunked_answers_and_interim_ones_are_understood() {
    let (endpoint, peer) = listen(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        for _ in 0..3 {
            assert!(stream.read(&mut buffer).unwrap() > 0);
            let head =
                b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head).unwrap();
            for piece in [&b"3\r\nab"[..], b"c\r", b"\n2\r\nde\r\n", b"0\r\n", b"\r\n"] {
                stream.write_all(piece).unwrap();
            }
        }
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let report = drive(&plan_of(&endpoint, 1, 1, 3), &mut Check::new("h", "api", "user")).unwrap();
    assert_eq!((report.allowed, report.errors), (3, 0), "{:?}", report.error_texts);
    peer.join().unwrap();
}

#[test]
fn pings_and_settings_are_acknowledged_at_any_time() {
    let (endpoint, peer) = listen(|listener| {
        let mut peer = Peer::accept(&listener);
        for round in 0..5_u32 {
            let id = peer.call().0;
            peer.write(6, 0, 0, b"pingpong");
            let pong = peer.read_kind(6);
            assert_eq!((pong.flags, pong.payload.as_slice()), (1, &b"pingpong"[..]));
            // The table for header blocks comes and goes.
            peer.settings(&[(1, if round % 2 == 0 { 0 } else { 4096 }), (3, 1), (0xff, 7)]);
            let ack = peer.read_kind(4);
            assert_eq!((ack.flags, ack.payload.len()), (1, 0));
            // A frame of an unknown kind.
            peer.write(0x42, 0xff, id, b"whatever");
            peer.answer(id);
        }
        peer.wait_for_end();
    });
    let report = drive(&plan_of(&endpoint, 1, 1, 5), &mut envoy()).unwrap();
    assert_eq!((report.allowed, report.errors), (5, 0), "{:?}", report.error_texts);
    peer.join().unwrap();
}

#[test]
fn padding_priority_and_continued_header_blocks_are_understood() {
    let (endpoint, peer) = listen(|listener| {
        let mut peer = Peer::accept(&listener);
        let id = peer.call().0;
        // Padded, with a priority, and the block in three frames, the second of them empty.
        peer.write(1, 0x28, id, b"\x02\0\0\0\0\x05..");
        peer.write(9, 0, id, b"");
        peer.write(9, 4, id, b"\x88");
        // The message in two frames, the first of them padded, and an empty one.
        peer.write(0, 8, id, b"\x03\0\0\0\0...");
        peer.write(0, 0, id, b"\x02\x08\x02");
        peer.write(0, 0, id, b"");
        peer.write(1, 1, id, b"\0\x0bgrpc-sta");
        peer.write(9, 4, id, b"tus\x010");
        peer.wait_for_end();
    });
    let report = drive(&plan_of(&endpoint, 1, 1, 1), &mut envoy()).unwrap();
    assert_eq!((report.denied, report.errors), (1, 0), "{:?}", report.error_texts);
    peer.join().unwrap();
}

#[test]
fn no_more_streams_are_opened_than_the_server_allows() {
    let (endpoint, peer) = listen(|listener| {
        let mut peer = Peer::accept_with(&listener, &[(3, 2)]);
        let first = [peer.call().0, peer.call().0];
        // A third call would arrive before the response to a ping.
        peer.write(6, 0, 0, b"anymore?");
        let frames = std::iter::from_fn(|| peer.read());
        let before: Vec<u8> = frames.map(|frame| frame.kind).take_while(|&kind| kind != 6).collect();
        assert!(!before.contains(&0) && !before.contains(&1), "{before:?}");
        // Now all calls may arrive.
        peer.settings(&[(3, 100)]);
        for id in first {
            peer.answer(id);
        }
        for _ in 0..6 {
            let id = peer.call().0;
            peer.answer(id);
        }
        peer.wait_for_end();
    });
    let report = drive(&plan_of(&endpoint, 1, 8, 8), &mut envoy()).unwrap();
    assert_eq!((report.allowed, report.errors), (8, 0), "{:?}", report.error_texts);
    peer.join().unwrap();
}

/// Sends and receives large messages.
struct Large(EnvoyRateLimit, usize);

impl Payload for Large {
    fn speaks(&self) -> Speaks {
        self.0.speaks()
    }

    fn request(&mut self, key: u64, out: &mut Vec<u8>) {
        out.resize(out.len() + self.1, b'.');
        self.0.request(key, out);
    }

    fn judge(&mut self, answer: Answer<'_>) -> Decision {
        self.0.judge(answer)
    }
}

#[test]
fn messages_larger_than_the_servers_windows_are_sent_piece_by_piece() {
    for (stream_window, connection_window) in [(7, 65_535), (1_000, 70_000), (1 << 20, 65_535)] {
        let mut setup = Setup::grpc(|_| Reply::grpc(true));
        let http2 = setup.http2.as_mut().unwrap();
        http2.initial_stream_window_size(stream_window).initial_connection_window_size(connection_window);
        let server = Server::start(setup);
        let bytes = if stream_window == 7 { 50 } else { 30_000 };
        let plan = Plan { keys: Keys::Sequential(200), ..plan_of(&server.endpoint, 2, 8, 200) };
        let report = drive(&plan, &mut Large(envoy(), bytes)).unwrap();
        assert_eq!((report.allowed, report.errors), (200, 0), "{:?}", report.error_texts);
        assert!(server.seen().len() == 200 && server.requests() == 200);
    }
}

#[test]
fn the_window_granted_to_the_server_is_replenished() {
    // 300 responses of 200 kB are several times the connection's window of 16 MiB.
    let mut body = Reply::grpc(true).body;
    // Field 15, which the judge passes over.
    body.extend([0x7a, 0xc0, 0x9a, 0x0c]);
    body.resize(body.len() + 200_000, b'.');
    let reply = Reply { body, ..Reply::grpc(true) };
    let server = Server::start(Setup::grpc(move |_| reply.clone()));
    let report = drive(&plan_of(&server.endpoint, 1, 8, 300), &mut envoy()).unwrap();
    assert_eq!((report.allowed, report.errors), (300, 0), "{:?}", report.error_texts);
}
