//! The proxy that injects network faults.

use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tidegate_testkit::redis::{Client, Fault, FaultProxy, RedisServer, Reply, until};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

struct Line {
    proxy: FaultProxy,
    server: RedisServer,
}

impl Line {
    fn new() -> Self {
        let server = RedisServer::start();
        Self { proxy: FaultProxy::before(server.address()), server }
    }

    fn client(&self, timeout: Duration) -> io::Result<Client> {
        Client::connect(self.proxy.address(), timeout)
    }

    fn ping(&self, timeout: Duration) -> io::Result<Reply> {
        self.client(timeout)?.ask(&["PING"])
    }
}

fn pong() -> Reply {
    Reply::Status("PONG".to_owned())
}

fn is_silent(result: io::Result<Reply>) -> bool {
    matches!(result.expect_err("nothing comes").kind(), WouldBlock | TimedOut)
}

#[test]
fn without_a_fault_everything_goes_through() {
    let line = Line::new();
    let mut client = line.client(LONG).unwrap();
    let large = "x".repeat(1 << 20);
    client.ask(&["SET", "key", &large]).unwrap();
    assert_eq!(client.ask(&["GET", "key"]).unwrap().text(), large);
    assert_eq!(line.proxy.url(), format!("redis://{}", line.proxy.address()));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the delay is of real time")]
fn a_delay_is_the_least_a_reply_takes() {
    let delay = Duration::from_millis(50);
    let line = Line::new();
    let mut client = line.client(LONG).unwrap();
    line.proxy.set(Fault::Delay(delay));
    for _ in 0..3 {
        let start = Instant::now();
        assert_eq!(client.ask(&["PING"]).unwrap(), pong());
        assert!(start.elapsed() >= delay);
    }
}

#[test]
fn a_partition_holds_what_is_sent_until_it_ends() {
    let line = Line::new();
    let mut before = line.client(LONG).unwrap();
    assert_eq!(before.ask(&["PING"]).unwrap(), pong());
    line.proxy.set(Fault::Partition);
    let late = &[&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"[..]].concat();
    let mut sent = TcpStream::connect(line.proxy.address()).unwrap();
    sent.write_all(late).unwrap();
    assert!(is_silent(line.ping(SHORT)));
    assert!(line.server.command(&["GET", "a"]).is_nil());
    line.proxy.heal();
    until("what was sent arrives", || (!line.server.command(&["GET", "a"]).is_nil()).then_some(()));
    assert_eq!(before.ask(&["PING"]).unwrap(), pong());
}

#[test]
fn a_black_hole_loses_what_is_sent_and_resets_who_lost_something() {
    let line = Line::new();
    let mut quiet = line.client(LONG).unwrap();
    assert_eq!(quiet.ask(&["PING"]).unwrap(), pong());
    let mut loud = line.client(SHORT).unwrap();
    assert_eq!(loud.ask(&["PING"]).unwrap(), pong());
    line.proxy.set(Fault::BlackHole);
    assert!(is_silent(loud.ask(&["SET", "key", "value"])));
    assert!(is_silent(line.ping(SHORT)));
    line.proxy.heal();
    assert!(matches!(loud.ask(&["PING"]).unwrap_err().kind(), ConnectionReset | io::ErrorKind::BrokenPipe));
    assert_eq!(quiet.ask(&["PING"]).unwrap(), pong());
    assert_eq!(line.ping(LONG).unwrap(), pong());
    assert!(line.server.command(&["GET", "key"]).is_nil());
}

#[test]
fn refusal_closes_what_is_open_and_refuses_what_is_new() {
    let line = Line::new();
    let mut before = line.client(LONG).unwrap();
    assert_eq!(before.ask(&["PING"]).unwrap(), pong());
    for _ in 0..20 {
        line.proxy.set(Fault::Refuse);
        assert_eq!(line.client(LONG).err().unwrap().kind(), ConnectionRefused);
        line.proxy.heal();
        assert_eq!(line.ping(LONG).unwrap(), pong());
    }
    assert!(before.ask(&["PING"]).is_err());
}

#[test]
fn a_reset_ends_what_is_open_and_what_is_new() {
    let line = Line::new();
    let mut before = line.client(LONG).unwrap();
    assert_eq!(before.ask(&["PING"]).unwrap(), pong());
    line.proxy.set(Fault::Reset);
    let ended = |error: io::Error| {
        matches!(error.kind(), ConnectionReset | io::ErrorKind::BrokenPipe | UnexpectedEof)
    };
    assert!(ended(before.ask(&["PING"]).unwrap_err()));
    assert!(ended(line.ping(LONG).unwrap_err()));
    line.proxy.heal();
    assert_eq!(line.ping(LONG).unwrap(), pong());
}

#[test]
fn a_fault_that_ends_at_once_has_still_ended_connections() {
    let line = Line::new();
    for fault in [Fault::Refuse, Fault::Reset] {
        let mut client = line.client(LONG).unwrap();
        assert_eq!(client.ask(&["PING"]).unwrap(), pong());
        line.proxy.set(fault);
        line.proxy.heal();
        assert!(client.ask(&["PING"]).is_err());
    }
}

#[test]
fn a_server_that_ends_ends_its_connections_through_the_proxy() {
    let line = Line::new();
    let mut client = line.client(LONG).unwrap();
    assert_eq!(client.ask(&["PING"]).unwrap(), pong());
    line.server.kill();
    assert!(client.ask(&["PING"]).is_err());
    assert!(line.ping(LONG).is_err());
    line.server.restart();
    assert_eq!(line.ping(LONG).unwrap(), pong());
}
