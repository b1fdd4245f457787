//! The report agrees with what the server saw.

use std::ops::ControlFlow;
use std::time::Duration;

use tidegate_load::payload::{Check, EnvoyRateLimit, Get, Payload, Throttlecrab};
use tidegate_load::{Keys, Length, Plan, Status, run};

use crate::server::{Reply, Server, Setup};
use crate::{drive, plan_of};

fn is_even(key: &str) -> bool {
    key.as_bytes().last().unwrap().is_multiple_of(2)
}

fn grpc_server() -> Server {
    Server::start(Setup::grpc(|key| Reply::grpc(is_even(key))))
}

fn http_server() -> Server {
    Server::start(Setup::http(|key| Reply::http(if is_even(key) { 200 } else { 429 })))
}

fn expect_agreement(server: &Server, plan: &Plan, payload: &mut dyn Payload) {
    let report = drive(plan, payload).unwrap();
    let allowed = server.seen().iter().filter(|(key, _)| is_even(key)).map(|(_, count)| count).sum();
    assert_eq!(report.requests, server.requests());
    assert_eq!((report.allowed, report.denied), (allowed, server.requests() - allowed));
    assert_eq!((report.errors, report.error_texts), (0, vec![]));
    assert_eq!(report.latency.count, report.requests);
    assert!(report.allowed > 0 && report.denied > 0);
}

#[test]
fn grpc_counts_agree_with_the_servers_own() {
    for (connections, streams) in [(1, 1), (4, 32), (32, 1)] {
        let server = grpc_server();
        let plan =
            Plan { keys: Keys::Uniform(100), ..plan_of(&server.endpoint, connections, streams, 5_000) };
        expect_agreement(&server, &plan, &mut EnvoyRateLimit::new("api", "user"));
    }
}

#[test]
fn http1_counts_agree_with_the_servers_own() {
    let payloads: [&mut dyn Payload; 2] =
        [&mut Check::new("localhost", "api", "user"), &mut Get::new("localhost", "/limited", "key")];
    for payload in payloads {
        let server = http_server();
        let plan = Plan { keys: Keys::Uniform(100), ..plan_of(&server.endpoint, 8, 1, 3_000) };
        expect_agreement(&server, &plan, payload);
    }
}

#[test]
fn unix_sockets_carry_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let grpc =
        Setup { unix: Some(folder.path().join("grpc")), ..Setup::grpc(|key| Reply::grpc(is_even(key))) };
    let decide = |key: &str| Reply::http(if is_even(key) { 200 } else { 429 });
    let http = Setup { unix: Some(folder.path().join("http")), ..Setup::http(decide) };
    let payloads: [&mut dyn Payload; 2] =
        [&mut EnvoyRateLimit::new("api", "user"), &mut Check::new("localhost", "api", "user")];
    for (setup, payload) in [grpc, http].into_iter().zip(payloads) {
        let server = Server::start(setup);
        let plan = Plan { keys: Keys::Uniform(100), ..plan_of(&server.endpoint, 4, 1, 2_000) };
        expect_agreement(&server, &plan, payload);
    }
}

#[test]
fn a_timed_run_waits_for_what_it_sent() {
    let server = grpc_server();
    let length = Length::Time(Duration::from_millis(150));
    let plan = Plan { length, keys: Keys::Uniform(100), ..plan_of(&server.endpoint, 4, 8, 1) };
    expect_agreement(&server, &plan, &mut EnvoyRateLimit::new("api", "user"));
}

#[test]
fn the_warm_up_is_not_counted() {
    let server = grpc_server();
    let warm_up = Duration::from_millis(50);
    let plan = Plan { warm_up, ..plan_of(&server.endpoint, 2, 4, 500) };
    let report = drive(&plan, &mut EnvoyRateLimit::new("api", "user")).unwrap();
    assert_eq!((report.requests, report.latency.count), (500, 500));
    assert!(server.requests() > 500, "{}", server.requests());
}

#[test]
fn throttlecrabs_answers_are_understood() {
    // Its `allowed` is field 1 too: 1 is true, absent is false.
    let decide =
        |key: &str| Reply { body: if is_even(key) { vec![8, 1] } else { vec![] }, ..Reply::grpc(true) };
    let server = Server::start(Setup::grpc(decide));
    let plan = Plan { keys: Keys::Uniform(100), ..plan_of(&server.endpoint, 2, 4, 1_000) };
    expect_agreement(&server, &plan, &mut Throttlecrab::new(10, 100, 60));
}

#[test]
fn cpu_time_and_memory_of_processes_are_reported() {
    let server = grpc_server();
    let plan = Plan { pids: vec![std::process::id()], ..plan_of(&server.endpoint, 2, 32, 20_000) };
    let report = drive(&plan, &mut EnvoyRateLimit::new("api", "user")).unwrap();
    let [process] = report.processes[..] else { panic!("{:?}", report.processes) };
    assert!(process.cpu_s > 0.0 && process.us_per_request > 0.0 && !process.ended, "{process:?}");
    assert!(process.resident_after_bytes > 1_000_000, "{process:?}");
    assert!(report.generator.cpu_s > 0.0 && report.generator.share <= 1.1, "{:?}", report.generator);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["requests"], 20_000);
}

#[test]
fn progress_is_told_and_can_end_the_run() {
    let server = grpc_server();
    let plan = Plan { length: Length::Time(Duration::from_mins(1)), ..plan_of(&server.endpoint, 1, 1, 1) };
    let mut told = Vec::new();
    let mut progress = |status: Status| {
        told.push(status);
        if told.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let report = run(&plan, &mut EnvoyRateLimit::new("api", "user"), &mut progress).unwrap();
    assert!(report.requests > 0 && report.elapsed_s < 50.0);
    assert!(told.is_sorted_by(|a, b| a.done < b.done && a.requests < b.requests), "{told:?}");
}
