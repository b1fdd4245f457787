//! What one client holds is not taken from the others: connections, files, memory, requests under way.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;
use tidegate_server::memory::{ConnectionCost, HighWaterMark, Memory, Source, limit_of_cgroup};

mod idle;
mod unread;
mod waiting;

use crate::control::ask_at;
use crate::support::service::{PATIENCE, Service, Setup, get, service, until};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000000}}]
";

/// Opens a connection and sends some bytes. Whoever is not let in does not read them, and that is fine.
pub(crate) fn open(at: SocketAddr, bytes: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(Duration::from_secs(2))).ok()?;
    let _ = stream.write_all(bytes);
    Some(stream)
}

/// The head of a POST whose body does not come.
pub(crate) fn slow_post(path: &str, token: &str, length: usize) -> String {
    let token = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{token}content-length: \
         {length}\r\n\r\n{{"
    )
}

pub(crate) fn token_of(service: &Service, name: &str, role: &str) -> String {
    let made = service.ask("POST", "/admin/v1/tokens", &json!({ "name": name, "role": role }));
    assert_eq!(made.status, 201, "{}", made.body);
    made.json()["token"].as_str().expect("a token").to_owned()
}

/// What a probe, a scraper and an administrator see.
pub(crate) fn admin_answers(service: &Service) {
    for path in ["/healthcheck", "/readyz", "/metrics"] {
        assert_eq!(get(service.admin, path).status, 200, "{path}");
    }
}

#[test]
fn slow_bodies_of_a_viewer_leave_probes_and_administrators_alone() {
    let service = service(RULES);
    let viewer = token_of(&service, "viewer", "viewer");
    let slow = slow_post("/admin/v1/explain", &viewer, 100);
    let held: Vec<_> = (0..300).filter_map(|_| open(service.admin, slow.as_bytes())).collect();
    admin_answers(&service);
    let answer = ask_at(service.admin, Some(&service.token()), "GET", "/admin/v1/quotas", &[], "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    // The one whose token it is is told.
    let answer = ask_at(service.admin, Some(&viewer), "GET", "/admin/v1/quotas", &[], "");
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")), "{}", answer.body);
    drop(held);
    until("the token's requests have ended", || {
        ask_at(service.admin, Some(&viewer), "GET", "/admin/v1/quotas", &[], "").status == 200
    });
}

#[test]
fn connections_that_send_nothing_make_room_for_probes() {
    let service = service(RULES);
    let idle: Vec<_> = (0..300).filter_map(|_| open(service.admin, b"")).collect();
    admin_answers(&service);
    let headers: Vec<_> =
        (0..300).filter_map(|_| open(service.admin, b"GET /metrics HTTP/1.1\r\nhost: loc")).collect();
    admin_answers(&service);
    drop((idle, headers));
}

#[test]
fn a_full_http_listener_closes_the_oldest_that_waits_for_a_request() {
    let service = Setup::rules(RULES).with("connections.max", "16").start();
    let mut held: Vec<_> = (0..32).filter_map(|_| open(service.http, b"POST /v1/ch")).collect();
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200);
    let kept =
        open(service.http, b"GET /healthcheck HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it listens");
    let mut answer = [0; 12];
    (&kept).read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    let first = held.remove(0);
    let mut rest = Vec::new();
    // Closed, with a word or without.
    let _ = (&first).read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
    drop(held);
}

/// Under a limit of 256 files the listeners share what there is, and a crowd at one leaves the others theirs.
#[test]
fn connections_of_one_listener_do_not_take_the_files_of_the_others() {
    let setup = Setup::rules(RULES).with("workers", "2").under(&["prlimit", "--nofile=256:256"]);
    let service = setup.start();
    let preface = [crate::bad_input::PREFACE, crate::bad_input::EMPTY_SETTINGS].concat();
    let grpc: Vec<_> = (0..300).filter_map(|_| open(service.grpc, &preface)).collect();
    for _ in 0..3 {
        admin_answers(&service);
        assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200);
    }
    let http: Vec<_> = (0..300).filter_map(|_| open(service.http, b"POST /v1/ch")).collect();
    admin_answers(&service);
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200);
    let metrics = get(service.admin, "/metrics").body;
    assert!(metrics.contains("ratelimit_connections_max{listener=\"grpc\"}"), "{metrics}");
    drop((grpc, http));
    let ended = service.stop();
    assert!(
        ended
            .errors
            .contains("the limit on open files is too low for connections.max; each listener has its share"),
        "{}",
        ended.errors
    );
    assert!(!ended.errors.contains("could not be accepted"), "{}", ended.errors);
}

/// Bodies that come slowly are held, and there may be many: together they stay within their part.
#[test]
fn bodies_are_held_within_the_memory_that_there_is() {
    const LIMIT: u64 = 128 << 20;
    let service = Setup::rules(RULES).with("memory.max_bytes", "128MiB").start();
    get(service.http, "/healthcheck");
    let mut bytes = slow_post("/v1/check", "", 1 << 20).into_bytes();
    bytes.resize((1 << 20) - 1, b' ');
    let held: Vec<_> = (0..200).filter_map(|_| open(service.http, &bytes)).collect();
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200, "a good client is served");
    let resident = service.resident_bytes();
    assert!(resident < LIMIT, "{resident} bytes are used");
    let metrics = get(service.admin, "/metrics").body;
    let refused = metrics
        .lines()
        .find_map(|line| line.strip_prefix("ratelimit_memory_refused_total{part=\"bodies\"} "));
    assert!(refused.is_some_and(|count| count != "0"), "{metrics}");
    let mut told = 0;
    for stream in &held {
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out");
        let mut answer = [0; 12];
        let mut stream = stream;
        told += usize::from(stream.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 503");
    }
    assert!(told > 100, "{told} were told that there is no room");
}

#[test]
fn every_part_has_a_share_and_all_shares_fit() {
    for limit in [64 << 20, 128 << 20, 1 << 30, 64_u64 << 30] {
        let memory = Memory::of(limit, Source::Setting);
        let cost = ConnectionCost { header_bytes: 16 << 10, tls: false };
        let parts = [
            memory.max_keys() as u64 * 48,
            memory.max_connections(cost) as u64 * 2 * (24 << 10),
            memory.bodies().limit() as u64,
            memory.streams().limit() as u64,
            memory.deciding().limit() as u64,
            memory.max_reservations() as u64 * 768,
            memory.max_inline_limits() as u64 * 1024,
        ];
        assert!(parts.iter().all(|bytes| *bytes > 1 << 19), "{limit}: {parts:?}");
        let base = (48 << 20).min(limit / 4);
        assert!(parts.iter().sum::<u64>() + base <= limit, "{limit}: {parts:?}");
    }
}

#[test]
fn the_least_limit_of_the_control_groups_counts() {
    let root = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let limit = |own: &str| limit_of_cgroup(root.path(), own);
    assert_eq!(limit("0::/a/b\n"), None);
    write("a/memory.max", "1000000\n");
    write("a/b/memory.max", "max\n");
    assert_eq!(limit("0::/a/b\n"), Some(1_000_000));
    // In a container the path is that of the outside, and only the root is there.
    write("memory.max", "2000000\n");
    assert_eq!(limit("0::/not/here\n"), Some(2_000_000));
    write("memory/x/memory.limit_in_bytes", "500000\n");
    assert_eq!(limit("5:cpu,memory:/x\n1:name=systemd:/x\n"), Some(500_000));
    assert_eq!(limit("nonsense"), None);
}

#[test]
fn nothing_new_is_taken_near_the_limit_until_memory_is_there_again() {
    const LIMIT: u64 = 1000 << 20;
    let (mut mark, low, high) = (HighWaterMark::default(), 100 << 20, 900 << 20);
    assert!(!mark.is_over(low, LIMIT));
    assert!(mark.is_over(high, LIMIT));
    assert!(!mark.is_over(low, LIMIT));
    // What an allocator keeps does not shut the service for ever.
    let mut looks = 0;
    while mark.is_over(high, LIMIT) {
        looks += 1;
        assert!(looks < 1000, "it stays shut");
    }
    assert!(looks >= 40, "{looks}");
    assert!(mark.is_over(high + (50 << 20), LIMIT), "but more than that is too much");
    // At the very end it does.
    assert!((0..1000).all(|_| mark.is_over(LIMIT, LIMIT)));
}
