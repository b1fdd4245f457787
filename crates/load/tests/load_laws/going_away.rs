//! Restarts of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_load::payload::{Check, EnvoyRateLimit, Payload};
use tidegate_load::{Fault, Keys, LoadError, Plan};
use tokio::sync::watch;

use crate::peer::{Peer, listen};
use crate::server::{Reply, Server, Setup};
use crate::{drive, plan_of};

/// Restarts the server after every 1,000 requests, from within.
fn restarting() -> Server {
    let restart: Arc<Mutex<Option<watch::Sender<u64>>>> = Arc::default();
    let (trigger, asked) = (Arc::clone(&restart), AtomicU64::new(0));
    let decide = move |_: &str| {
        if asked.fetch_add(1, Ordering::Relaxed) % 1_000 == 999 {
            trigger.lock().as_ref().unwrap().send_modify(|generation| *generation += 1);
        }
        Reply::grpc(true)
    };
    let server = Server::start(Setup::grpc(decide));
    *restart.lock() = Some(server.restarter());
    server
}

#[test]
fn a_graceful_restart_loses_no_grpc_request() {
    let server = restarting();
    let plan =
        Plan { keys: Keys::Sequential(10_000), reconnect: true, ..plan_of(&server.endpoint, 4, 16, 10_000) };
    let report = drive(&plan, &mut EnvoyRateLimit::new("api", "user")).unwrap();
    assert_eq!((report.allowed, report.errors), (10_000, 0), "{:?}", report.error_texts);
    assert!(report.reconnects >= 4, "{}", report.reconnects);
    let seen = server.seen();
    assert!(seen.len() == 10_000 && seen.values().all(|&count| count == 1));
}

#[test]
fn closing_http1_connections_after_an_answer_is_routine() {
    let asked = AtomicU64::new(0);
    let decide = move |_: &str| {
        let closes = asked.fetch_add(1, Ordering::Relaxed) % 100 == 99;
        Reply { closes, ..Reply::http(200) }
    };
    let server = Server::start(Setup::http(decide));
    // Not even `reconnect` is needed.
    let report =
        drive(&plan_of(&server.endpoint, 4, 1, 3_050), &mut Check::new("localhost", "api", "user")).unwrap();
    assert_eq!((report.allowed, report.errors), (3_050, 0), "{:?}", report.error_texts);
    assert_eq!(report.reconnects, 30);
}

#[test]
fn going_away_ends_a_run_that_may_not_reconnect() {
    let server = restarting();
    let error = drive(&plan_of(&server.endpoint, 1, 4, 5_000), &mut EnvoyRateLimit::new("api", "user"));
    let Err(LoadError::Lost { fault: Fault::GoAway(why), .. }) = &error else { panic!("{error:?}") };
    assert_eq!(why, "NO_ERROR");
}

/// Runs a plan against a peer, with four concurrent calls.
fn calls(requests: u64, serve: impl FnOnce(std::net::TcpListener) + Send + 'static) -> tidegate_load::Report {
    let (endpoint, peer) = listen(serve);
    let plan = Plan { reconnect: true, keys: Keys::Sequential(4), ..plan_of(&endpoint, 1, 4, requests) };
    let mut payload = EnvoyRateLimit::new("api", "user");
    let report = drive(&plan, &mut payload as &mut dyn Payload).unwrap();
    peer.join().unwrap();
    report
}

#[test]
fn streams_beyond_the_last_one_named_are_sent_again() {
    let report = calls(4, |listener| {
        let mut old = Peer::accept(&listener);
        let ids = [0; 4].map(|_| old.call().0);
        assert_eq!(ids, [1, 3, 5, 7]);
        old.go_away(3);
        let mut new = Peer::accept(&listener);
        let again = [0; 2].map(|_| new.call());
        // The old connection still responds to the calls that it accepted.
        old.answer(3);
        old.answer(1);
        for (id, _) in again {
            new.answer(id);
        }
        new.wait_for_end();
    });
    assert_eq!((report.allowed, report.errors, report.resent, report.reconnects), (4, 0, 2, 1));
}

#[test]
fn refused_streams_are_sent_again_on_the_same_connection() {
    let report = calls(4, |listener| {
        let mut peer = Peer::accept(&listener);
        let calls = [0; 4].map(|_| peer.call());
        peer.write(3, 0, 5, &7_u32.to_be_bytes());
        let (id, message) = peer.call();
        assert_eq!((id, &message), (9, &calls[2].1));
        for id in [1, 3, 7, 9] {
            peer.answer(id);
        }
        peer.wait_for_end();
    });
    assert_eq!((report.allowed, report.errors, report.resent, report.reconnects), (4, 0, 1, 0));
}

#[test]
fn calls_on_a_connection_that_breaks_are_errors_and_the_run_goes_on() {
    let report = calls(8, |listener| {
        let mut old = Peer::accept(&listener);
        (0..4).for_each(|_| drop(old.call()));
        drop(old);
        let mut new = Peer::accept(&listener);
        for _ in 0..4 {
            let id = new.call().0;
            new.answer(id);
        }
        new.wait_for_end();
    });
    assert_eq!((report.allowed, report.errors, report.reconnects), (4, 4, 1));
    assert_eq!(report.error_texts.len(), 1, "{:?}", report.error_texts);
}
