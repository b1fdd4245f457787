//! Failures are reported.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use tidegate_load::payload::{Answer, Check, Decision, EnvoyRateLimit, Payload, Speaks};
use tidegate_load::{Endpoint, Fault, Keys, Length, LoadError, Pace, Plan, PlanError};

use crate::peer::{Peer, listen};
use crate::server::{Reply, Server, Setup};
use crate::{drive, plan_of};

fn envoy() -> EnvoyRateLimit {
    EnvoyRateLimit::new("api", "user")
}

#[test]
fn a_grpc_status_other_than_0_is_an_error() {
    let server = Server::start(Setup::grpc(|_| Reply { grpc_status: "14", ..Reply::grpc(true) }));
    let report = drive(&plan_of(&server.endpoint, 2, 4, 300), &mut envoy()).unwrap();
    assert_eq!((report.requests, report.errors, report.allowed), (300, 300, 0));
    assert_eq!(report.error_texts, ["grpc-status 14 (UNAVAILABLE): said the server"]);
    assert_eq!(report.latency.count, 0);
}

#[test]
fn an_http_status_that_decides_nothing_is_an_error() {
    let server = Server::start(Setup::http(|_| Reply::http(500)));
    let report = drive(&plan_of(&server.endpoint, 2, 1, 50), &mut Check::new("h", "api", "user")).unwrap();
    assert_eq!((report.errors, report.error_texts), (50, vec!["http status 500".to_owned()]));
}

#[test]
fn a_page_of_a_proxy_instead_of_a_grpc_answer_is_named_by_its_status() {
    let (endpoint, peer) = listen(|listener| {
        let mut peer = Peer::accept(&listener);
        let id = peer.call().0;
        peer.write(1, 4, id, b"\x08\x03502");
        peer.write(0, 1, id, b"<html>");
        peer.wait_for_end();
    });
    let report = drive(&plan_of(&endpoint, 1, 1, 1), &mut envoy()).unwrap();
    assert_eq!(report.error_texts, ["http status 502 without a grpc-status"]);
    peer.join().unwrap();
}

#[test]
fn a_port_without_a_server_cannot_be_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    for plan in [plan_of(&Endpoint::Tcp(addr), 2, 1, 1), plan_of(&"unix:/nowhere".parse().unwrap(), 1, 1, 1)]
    {
        let error = drive(&plan, &mut envoy()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}: cannot connect: ", plan.endpoint)), "{error}");
    }
}

#[test]
fn http1_in_answer_to_http2_is_recognised() {
    let server = Server::start(Setup::http(|_| Reply::http(200)));
    let result = drive(&plan_of(&server.endpoint, 1, 1, 1), &mut envoy());
    assert!(matches!(result, Err(LoadError::Connect { .. })), "{result:?}");
    let (endpoint, peer) = listen(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        // In pieces, of which the first does not show the protocol yet.
        for piece in [&b"HTT"[..], b"P/1.1 400 Bad Request\r\n\r\n"] {
            stream.write_all(piece).unwrap();
        }
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let result = drive(&plan_of(&endpoint, 1, 1, 1), &mut envoy());
    assert!(matches!(result, Err(LoadError::Connect { fault: Fault::AnswersHttp1, .. })), "{result:?}");
    peer.join().unwrap();
}

#[test]
fn http2_in_answer_to_http1_is_recognised() {
    let (endpoint, peer) = listen(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        stream.write_all(b"\0\0\0\x04\0\0\0\0\0").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let result = drive(&plan_of(&endpoint, 1, 1, 1), &mut Check::new("h", "api", "user"));
    assert!(matches!(result, Err(LoadError::Lost { fault: Fault::AnswersHttp2, .. })), "{result:?}");
    peer.join().unwrap();
}

#[test]
fn a_server_that_never_greets_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(silent.local_addr().unwrap());
    let plan = Plan { connect_timeout: Duration::from_millis(100), ..plan_of(&endpoint, 1, 1, 1) };
    let result = drive(&plan, &mut envoy());
    assert!(matches!(result, Err(LoadError::Connect { fault: Fault::Slow(_), .. })), "{result:?}");
}

#[test]
fn a_lost_connection_ends_a_run_that_may_not_reconnect() {
    let (endpoint, peer) = listen(|listener| drop(Peer::accept(&listener).call()));
    let result = drive(&plan_of(&endpoint, 1, 1, 1), &mut envoy());
    assert!(matches!(result, Err(LoadError::Lost { .. })), "{result:?}");
    peer.join().unwrap();
}

#[test]
fn a_server_that_stays_away_ends_the_run() {
    let (endpoint, peer) = listen(|listener| drop(Peer::accept(&listener).call()));
    let connect_timeout = Duration::from_millis(200);
    let plan = Plan { reconnect: true, connect_timeout, ..plan_of(&endpoint, 1, 1, 5) };
    let result = drive(&plan, &mut envoy());
    assert!(matches!(result, Err(LoadError::Away { away_s, .. }) if away_s > 0.2), "{result:?}");
    peer.join().unwrap();
}

#[test]
fn a_stream_without_an_answer_is_an_error_and_the_others_go_on() {
    let (endpoint, peer) = listen(|listener| {
        let mut peer = Peer::accept(&listener);
        let silent = peer.call().0;
        while let Some(frame) = peer.read() {
            match frame.kind {
                0 => peer.answer(frame.stream),
                3 => {
                    assert_eq!((frame.stream, frame.payload.as_slice()), (silent, &[0, 0, 0, 8][..]));
                    // Too late, and ignored.
                    peer.answer(silent);
                }
                _ => {}
            }
        }
    });
    let (length, call_timeout) = (Length::Time(Duration::from_millis(900)), Duration::from_millis(400));
    let report = drive(&Plan { length, call_timeout, ..plan_of(&endpoint, 1, 2, 1) }, &mut envoy()).unwrap();
    assert_eq!((report.errors, report.error_texts), (1, vec!["no answer in time".to_owned()]));
    assert!(report.allowed > 2, "{}", report.allowed);
    peer.join().unwrap();
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let server = Server::start(Setup::grpc(|_| Reply::grpc(true)));
    let plan = Plan { pids: vec![0x3fff_ffff], ..plan_of(&server.endpoint, 1, 1, 1) };
    let result = drive(&plan, &mut envoy());
    assert!(matches!(result, Err(LoadError::Process { pid: 0x3fff_ffff, .. })), "{result:?}");
}

#[test]
fn a_plan_that_makes_no_sense_is_refused_before_anything_is_sent() {
    struct Http;
    impl Payload for Http {
        fn speaks(&self) -> Speaks {
            Speaks::Http1
        }
        fn request(&mut self, _: u64, _: &mut Vec<u8>) {}
        fn judge(&mut self, _: Answer<'_>) -> Decision {
            Decision::Allowed
        }
    }
    let good = || plan_of(&"unix:/nowhere".parse().unwrap(), 1, 1, 1);
    let zero = |field| PlanError::Zero { field };
    let cases = [
        (Plan { connections: 0, ..good() }, zero("connections")),
        (Plan { keys: Keys::Uniform(0), ..good() }, zero("keys")),
        (Plan { keys: Keys::Zipf { n: 5, exponent: -1.0 }, ..good() }, PlanError::Exponent(-1.0)),
        (Plan { pace: Pace::Open { per_second: 0.0, poisson: true }, ..good() }, PlanError::Rate(0.0)),
        (Plan { streams: 2, ..good() }, PlanError::StreamsOverHttp1(2)),
    ];
    for (plan, expected) in cases {
        let result = drive(&plan, &mut Http);
        assert!(matches!(&result, Err(LoadError::Plan(error)) if *error == expected), "{result:?}");
    }
    let error = "nonsense".parse::<Endpoint>().unwrap_err().to_string();
    assert!(error.ends_with("write `host:port` or `unix:/path`"), "{error}");
}
