//! One server: killed, hung, forgetful, full, slow, cut off.

use std::time::Duration;

use tidegate_testkit::redis::{Fault, FaultProxy, Impostor, RedisServer};
use tokio::time::Instant;

use super::client::Source;
use super::load::{Load, go_on_for};
use super::notes::Notes;
use super::{A_WHILE, BACK_WITHIN, EVERY_POLICY, LIMIT, SHARE, acquire, degradation, node, patient_node};
use crate::support::service::{Answer, Service, get, post, until};

/// How often something happens that happens again and again.
const OFTEN: usize = 20;

/// Breaks the store and mends it under load. It is away from when `fail` returns until `heal` is called.
fn outage(
    (node, server): (&Service, &RedisServer),
    fail: impl FnOnce(),
    lasts: Duration,
    heal: impl FnOnce(),
) -> Notes {
    let load = Load::on(node, &EVERY_POLICY).beside([server]);
    go_on_for(A_WHILE);
    fail();
    let failed = Instant::now();
    go_on_for(lasts);
    assert_eq!(degradation(node), 2, "the only server is away");
    let mended = Instant::now();
    heal();
    let load = load.beside([server]);
    let back = Instant::now();
    // On a busy machine that takes longer; how long it may take is judged below, by the time that the processes got.
    until("the node is well", || degradation(node) == 0);
    go_on_for(A_WHILE);
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_policies(failed, mended);
    notes.assert_back(back, BACK_WITHIN);
    notes
}

#[test]
fn a_killed_server_is_a_matter_of_policy_until_it_runs_again() {
    let server = RedisServer::start();
    let node = node(&server.url());
    let notes = outage((&node, &server), || server.kill(), A_WHILE, || server.restart());
    // It keeps nothing on disk, and so starts anew.
    assert!(notes.admitted("tight", Source::Redis) <= 2 * LIMIT);
    assert_eq!(notes.admitted("tight", Source::Fallback), SHARE);
}

#[test]
fn a_hung_server_holds_nobody_up() {
    let server = RedisServer::start();
    let node = node(&server.url());
    let notes = outage((&node, &server), || server.pause(), Duration::from_secs(10), || server.resume());
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert_eq!(notes.admitted("tight", Source::Fallback), SHARE);
}

#[test]
fn a_partition_is_bridged_for_as_long_as_it_lasts() {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let node = node(&proxy.url());
    let cut = || proxy.set(Fault::Partition);
    let notes = outage((&node, &server), cut, Duration::from_secs(30), || proxy.heal());
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert_eq!(notes.admitted("tight", Source::Fallback), SHARE);
}

#[test]
fn connections_that_a_firewall_forgot_are_made_anew() {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let node = node(&proxy.url());
    let notes = outage((&node, &server), || proxy.set(Fault::BlackHole), A_WHILE, || proxy.heal());
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert_eq!(notes.admitted("tight", Source::Fallback), SHARE);
}

#[test]
fn a_server_slower_than_the_deadline_is_one_that_fails() {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let node = node(&proxy.url());
    let slow = Fault::Delay(Duration::from_millis(50));
    let notes = outage((&node, &server), || proxy.set(slow), A_WHILE, || proxy.heal());
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert_eq!(notes.admitted("tight", Source::Fallback), SHARE);
}

#[test]
fn a_server_without_memory_is_one_that_fails() {
    let server = RedisServer::start();
    let node = node(&server.url());
    let full = || drop(server.command(&["CONFIG", "SET", "maxmemory", "1"]));
    let room = || drop(server.command(&["CONFIG", "SET", "maxmemory", "0"]));
    let notes = outage((&node, &server), full, A_WHILE, room);
    // What is used up is still known to be: a denial writes nothing.
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert!(notes.admitted("tight", Source::Fallback) <= SHARE);
}

#[test]
fn forgotten_scripts_cost_no_decision() {
    let server = RedisServer::start();
    let node = patient_node(&server.url());
    let load = Load::on(&node, &EVERY_POLICY).beside([&server]);
    for _ in 0..OFTEN {
        go_on_for(A_WHILE / OFTEN as u32);
        server.command(&["SCRIPT", "FLUSH"]);
    }
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_by_store();
    assert_eq!(notes.admitted("tight", Source::Redis), LIMIT);
}

#[test]
fn forgotten_counters_start_anew_and_nothing_else_happens() {
    let server = RedisServer::start();
    let node = patient_node(&server.url());
    let load = Load::on(&node, &EVERY_POLICY).beside([&server]);
    for _ in 0..OFTEN {
        go_on_for(A_WHILE / OFTEN as u32);
        server.command(&["FLUSHALL"]);
    }
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_by_store();
    assert!(notes.admitted("tight", Source::Redis) <= (OFTEN + 1) * LIMIT);
}

#[test]
fn a_node_starts_without_its_store_and_takes_to_it_when_it_comes() {
    let server = RedisServer::start();
    server.kill();
    let node = node(&server.url());
    let load = Load::on(&node, &EVERY_POLICY);
    let started = Instant::now();
    go_on_for(A_WHILE);
    let mended = Instant::now();
    server.restart();
    let load = load.beside([&server]);
    let back = Instant::now();
    until("the node is well", || degradation(&node) == 0);
    go_on_for(A_WHILE);
    let notes = load.stop();
    notes.assert_calm();
    notes.assert_policies(started, mended);
    notes.assert_back(back, BACK_WITHIN);
    assert!(notes.admitted("tight", Source::Redis) <= LIMIT);
    assert_eq!(notes.admitted("tight", Source::Fallback), SHARE);
}

/// How many of 30 calls pass without the store.
fn passes(node: &Service, value: &str) -> usize {
    let ask = |_: &usize| {
        let answer = node.check(super::DOMAIN, &format!(r#"{{"tight":"{value}"}}"#));
        assert_eq!(answer.json()["source"], "fallback", "{}", answer.body);
        answer.status == 200
    };
    (0..30).filter(ask).count()
}

#[test]
fn a_node_admits_its_share_and_less_of_it_later() {
    let server = RedisServer::start();
    let node =
        super::setup(&server.url()).with("redis.nodes", "2").with("fallback.tighten_after", "2s").start();
    server.kill();
    // A half of the half of 40 that is its own.
    assert_eq!(passes(&node, "early"), 10);
    until("the store has failed for 2 s", || {
        let store = get(node.admin, "/readyz").json();
        store["store"]["servers"][0]["failing_for_ms"].as_u64().is_some_and(|time| time > 2_000)
    });
    assert_eq!(passes(&node, "late"), 5);
    // Nor does anybody get more than the smaller share by having come early.
    assert_eq!(passes(&node, "early"), 0);
}

#[test]
fn a_staged_policy_goes_by_how_long_the_store_has_failed() {
    let server = RedisServer::start();
    let node = node(&server.url());
    let load = Load::on(&node, &[("staged", 0)]).beside([&server]);
    go_on_for(A_WHILE / 2);
    let fails = Instant::now();
    // Alive and of no use: whoever asks only whether it is there would think it back each time.
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let failed = Instant::now();
    go_on_for(2 * A_WHILE);
    let mended = Instant::now();
    let notes = load.stop();
    notes.assert_calm();
    let by_policy = |from: Instant, to: Instant, allowed: bool| {
        let mut seen = notes.between(from, to);
        let other = seen.find(|seen| !seen.by(Source::Fallback) || seen.decision.allowed != allowed);
        assert!(other.is_none(), "{:?} after it failed: {other:?}", other.map(|seen| seen.at - failed));
    };
    // The rule denies for one second, then lets pass. The node may have known before this thread went on.
    by_policy(failed, fails + Duration::from_millis(900), false);
    by_policy(failed + A_WHILE, mended, true);
}

#[test]
fn slots_of_a_share_return_when_they_are_released() {
    let server = RedisServer::start();
    // What the store or the share gives is counted here, so neither may stand in for the other.
    let node = patient_node(&server.url());
    let release = |held: &Answer| {
        let body = serde_json::json!({ "permit": held.json()["permit"] }).to_string();
        assert_eq!(post(node.http, "/v1/release", &body).status, 204);
    };
    let by_store = acquire(&node, "job");
    server.kill();
    // Half of the four, whatever the store has given away.
    let mut held = [acquire(&node, "job"), acquire(&node, "job")];
    assert_eq!(held.each_ref().map(|held| held.status), [200, 200]);
    assert_eq!(acquire(&node, "job").status, 429);
    for _ in 0..3 {
        release(&held[0]);
        held[0] = acquire(&node, "job");
        assert_eq!(held[0].status, 200, "{}", held[0].body);
    }
    server.restart();
    until("the store is back", || degradation(&node) == 0);
    held.iter().chain([&by_store]).for_each(release);
    // While it recovers, some requests are decided without it.
    until("the store is asked for everything", || {
        let metrics = get(node.admin, "/metrics").body;
        let mut states = metrics.lines().filter(|line| line.starts_with("ratelimit_circuit_state{"));
        states.clone().count() > 0 && states.all(|line| line.ends_with(" 0"))
    });
    let given = (0..5).filter(|_| acquire(&node, "job").status == 200).count();
    assert_eq!(given, 4);
}

/// A decision on a key, and what it was taken by.
fn decide(node: &Service, key: &str) -> (u16, String) {
    let answer = node.check(super::DOMAIN, &format!(r#"{{"{key}":"v0"}}"#));
    (answer.status, answer.json()["source"].as_str().unwrap_or_default().to_owned())
}

fn by(source: &str, status: u16) -> (u16, String) {
    (status, source.to_owned())
}

#[test]
fn a_server_whose_replies_have_the_wrong_shape_is_one_that_fails() {
    // It does what it is asked for before it is trusted, and then answers half of what the script does.
    let impostor = Impostor::start(|command| {
        let settles = command[0] == b"EVALSHA" || command[1].len() > 2_000;
        Some(if settles { "*1\r\n:5\r\n" } else { ":1\r\n" }.as_bytes().to_vec())
    });
    let node = patient_node(&impostor.url());
    for _ in 0..3 {
        assert_eq!(decide(&node, "open"), by("fallback", 200));
        assert_eq!(decide(&node, "closed"), by("fallback", 429));
    }
    until("it is told", || degradation(&node) == 2);
    let metrics = get(node.admin, "/metrics").body;
    let garbled = metrics.lines().find_map(|line| {
        line.strip_prefix("ratelimit_redis_errors_total{kind=\"garbled\"} ")?.parse::<u64>().ok()
    });
    assert!(garbled >= Some(3), "{metrics}");
}

#[test]
fn a_key_that_another_program_has_written_fails_its_own_decisions() {
    let server = RedisServer::start();
    let node = patient_node(&server.url());
    assert_eq!(decide(&node, "closed"), by("redis", 200));
    // Counters of sliding windows; those of slots have keys of their own.
    for key in server.command(&["KEYS", "*:s*"]).items() {
        server.command(&["SET", &key.text(), "somebody else's"]);
    }
    for round in 1..=4 {
        assert_eq!(decide(&node, "closed"), by("fallback", 429));
        // The share would be two.
        assert_eq!(acquire(&node, "job").status, 200, "slot {round}");
    }
    assert_eq!(degradation(&node), 0, "the server does its work");
    let metrics = get(node.admin, "/metrics").body;
    assert!(metrics.contains("ratelimit_redis_errors_total{kind=\"foreign\"} 4"), "{metrics}");
    let timed = format!("ratelimit_redis_duration_seconds_count{{shard=\"{}\"}} ", server.address());
    let batches = metrics.lines().find_map(|line| line.strip_prefix(&timed)?.parse::<u64>().ok());
    assert!(batches >= Some(9), "{timed}: {metrics}");
}

#[test]
fn a_server_that_dies_while_nobody_asks_is_noticed() {
    let server = RedisServer::start();
    let node = patient_node(&server.url());
    assert_eq!(degradation(&node), 0);
    server.kill();
    until("it is noticed", || degradation(&node) == 2);
    server.restart();
    until("its return is noticed", || degradation(&node) == 0);
}
