//! A server whose clock jumps.

use std::time::Duration;

use tidegate_testkit::redis::{RedisServer, Setup as Server};
use tokio::time::Instant;

use super::acquire;
use super::client::Source;
use super::load::{Asked, Load, go_on_for};
use super::notes::Notes;
use crate::support::service::{Service, Setup, until};

/// Of every limit, in every window.
const LIMIT: usize = 10;
const WINDOW: Duration = Duration::from_secs(1);
/// How many windows pass between two jumps.
const WINDOWS: usize = 3;
const HOUR: i64 = 3_600;

const RULES: &str = "
domain: faults
descriptors:
  - key: free
    rate_limit: { unlimited: true }
  - key: token_bucket
    limits: [{ algorithm: token_bucket, requests: 10, per: second, burst: 10 }]
  - key: leaky_bucket
    limits: [{ algorithm: leaky_bucket, requests: 10, per: second, burst: 10 }]
  - key: fixed_window
    limits: [{ algorithm: fixed_window, requests: 10, per: second }]
  - key: calendar
    limits: [{ algorithm: fixed_window, requests: 1_000_000, per: day, calendar: Europe/Berlin }]
  - key: sliding_window
    limits: [{ algorithm: sliding_window, requests: 10, per: second }]
  - key: sub_windows
    limits: [{ algorithm: sub_windows, requests: 10, per: second, buckets: 10 }]
  - key: sliding_log
    limits: [{ algorithm: sliding_log, requests: 10, per: second }]
  - key: job
    concurrency: { max: 2, timeout: 1s }
";

const ALGORITHMS: [Asked; 6] = [
    ("token_bucket", 0),
    ("leaky_bucket", 0),
    ("fixed_window", 0),
    ("sliding_window", 0),
    ("sub_windows", 0),
    ("sliding_log", 0),
];

/// A node on a server whose clock can jump. It waits long: such a server is slow.
fn start() -> (RedisServer, Service) {
    let server = Server::valkey().fake_clock().start();
    let node = Setup::rules(RULES).with("store", &server.url()).with("redis.deadline", "5s").start();
    (server, node)
}

/// What was admitted between two jumps is bounded, and not nothing.
fn assert_limited(notes: &Notes, from: Instant, to: Instant) {
    for (key, _) in ALGORITHMS {
        let passed = notes.between(from, to).filter(|seen| seen.key == key && seen.decision.allowed);
        let admitted: Vec<Duration> = passed.map(|seen| seen.at - from).collect();
        // Windows begin anywhere, and a jump may admit one limit more.
        let most = LIMIT * ((to - from).as_millis() as usize / WINDOW.as_millis() as usize + 3);
        assert!(admitted.len() <= most, "{key} let {} of at most {most} pass", admitted.len());
        // A window, and the one before that still weighs on it.
        let first = admitted.first().unwrap_or_else(|| panic!("{key} let nobody pass"));
        assert!(*first <= 2 * WINDOW, "{key} was shut for {first:?}");
    }
}

#[test]
fn a_clock_that_jumps_neither_shuts_anybody_out_nor_lets_traffic_flow_free() {
    let (server, node) = start();
    let load = Load::on(&node, &ALGORITHMS).beside([&server]);
    let mut jumps = vec![Instant::now()];
    for offset in [HOUR, 0, -HOUR, 0] {
        go_on_for(WINDOW * WINDOWS as u32);
        server.set_clock_offset(offset);
        jumps.push(Instant::now());
    }
    go_on_for(WINDOW * WINDOWS as u32);
    jumps.push(Instant::now());
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_by_store();
    for jump in jumps.windows(2) {
        assert_limited(&notes, jump[0], jump[1]);
    }
    assert!(notes.seen.iter().all(|seen| seen.by(Source::Redis)));
}

#[test]
fn calendars_follow_a_clock_that_jumps() {
    let (server, node) = start();
    let load = Load::on(&node, &[("calendar", 0)]).beside([&server]);
    for offset in [24 * HOUR, 0, -24 * HOUR, 0] {
        go_on_for(WINDOW / 2);
        server.set_clock_offset(offset);
    }
    go_on_for(WINDOW / 2);
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_by_store();
    assert!(notes.seen.iter().all(|seen| seen.decision.allowed), "there is room for all");
}

fn acquires(node: &Service) -> bool {
    acquire(node, "job").status == 200
}

#[test]
fn slots_return_whatever_the_clock_does() {
    let (server, node) = start();
    for offset in [HOUR, 0, -HOUR] {
        until("slots have returned", || acquires(&node) && acquires(&node));
        server.set_clock_offset(offset);
    }
    let jumped = Instant::now();
    until("slots have returned", || acquires(&node));
    let shut = jumped.elapsed();
    // The time-out, and what the node itself remembers of a denial.
    assert!(shut < 5 * WINDOW, "they returned after {shut:?}");
}
