//! Requests that wait for a store which does not answer are held within the memory that there is.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use tidegate_testkit::redis::{Fault, FaultProxy, RedisServer};

use crate::support::clients::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::support::clients::envoy::service::ratelimit::v3::rate_limit_response::Code;
use crate::support::grpc::{Client, descriptor};
use crate::support::service::{Service, Setup, get, post, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000000}}]
";
const LIMIT: u64 = 128 << 20;
const BODY_BYTES: usize = 512 << 10;

fn hung_store() -> (RedisServer, FaultProxy, Service) {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let setup = Setup::rules(RULES).with("store", &proxy.url()).with("memory.max_bytes", "128MiB");
    let service = setup.with("redis.deadline", "60s").start();
    until("the store decides", || service.check("api", r#"{"user":"ann"}"#).json()["source"] == "redis");
    proxy.set(Fault::Partition);
    (server, proxy, service)
}

/// How many requests found no room: while their body arrived, or when they would have waited for the store.
fn refused(service: &Service) -> u64 {
    let metrics = get(service.admin, "/metrics").body;
    let count = |part| {
        let line = format!("ratelimit_memory_refused_total{{part=\"{part}\"}} ");
        let count = metrics.lines().find_map(|found| found.strip_prefix(&*line)?.parse::<u64>().ok());
        count.expect("a count")
    };
    count("deciding") + count("bodies")
}

/// A check with as many spaces as a body may have.
fn large_check(at: &Service) -> TcpStream {
    let body = format!(r#"{{"domain":"api","descriptor":{{"user":"eve"}}{}}}"#, " ".repeat(BODY_BYTES));
    let mut stream = TcpStream::connect(at.http).expect("it listens");
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // Whoever is refused may be closed before all is sent.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    stream
}

#[test]
fn bodies_over_http_that_wait_for_a_store_are_held_within_their_memory() {
    let (_server, proxy, service) = hung_store();
    let held: Vec<TcpStream> = (0..80).map(|_| large_check(&service)).collect();
    until("many are refused", || refused(&service) > 50);
    let resident = service.resident_bytes();
    assert!(resident < LIMIT, "{resident} bytes are used");
    let told = held.iter().filter(|stream| is_refused(stream)).count();
    assert!(told > 40, "{told} were told that there is no room");
    drop(held);
    proxy.heal();
    until("the store decides again", || {
        let answer = post(service.http, "/v1/check", r#"{"domain":"api","descriptor":{"user":"ann"}}"#);
        answer.status == 200 && answer.json()["source"] == "redis"
    });
}

fn is_refused(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out");
    let mut status = [0; 12];
    stream.read_exact(&mut status).is_ok() && &status == b"HTTP/1.1 503"
}

#[test]
fn messages_over_grpc_that_wait_for_a_store_are_held_within_their_memory() {
    let (_server, proxy, service) = hung_store();
    let at = service.grpc;
    let ask = move || {
        let value = "x".repeat(60_000);
        let descriptors = (0..8).map(|_| descriptor(&[("user", &value)])).collect();
        let request = RateLimitRequest { domain: "api".to_owned(), descriptors, hits_addend: 1 };
        let mut client = Client::at(at);
        (0..4).map(|_| client.ask(request.clone()).map(|answer| answer.overall_code())).collect::<Vec<_>>()
    };
    let asking: Vec<_> = (0..64).map(|_| thread::spawn(ask)).collect();
    until("some are refused", || refused(&service) > 0);
    let resident = service.resident_bytes();
    assert!(resident < LIMIT, "{resident} bytes are used");
    proxy.heal();
    let answers: Vec<_> = asking.into_iter().flat_map(|asking| asking.join().expect("answers")).collect();
    // Envoy would let a failed call pass, so that which finds no room is denied.
    assert!(answers.iter().any(|answer| matches!(answer, Ok(Code::OverLimit))), "{answers:?}");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}
