//! Latency counts from the time a call was due.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_load::payload::{Check, EnvoyRateLimit};
use tidegate_load::{Endpoint, Length, Pace, Plan};

use crate::server::{Reply, Server, Setup};
use crate::{drive, plan_of};

fn open(per_second: f64) -> Pace {
    Pace::Open { per_second, poisson: false }
}

#[test]
fn a_stall_delays_every_call_that_was_due_in_it() {
    let asked = AtomicU64::new(0);
    let stalls = move |_: &str| {
        if asked.fetch_add(1, Ordering::Relaxed) == 100 {
            std::thread::sleep(Duration::from_millis(50));
        }
        Reply::grpc(true)
    };
    let server = Server::start(Setup::grpc(stalls));
    let plan = Plan { pace: open(2_000.0), ..plan_of(&server.endpoint, 1, 1, 400) };
    let report = drive(&plan, &mut EnvoyRateLimit::new("api", "user")).unwrap();
    assert_eq!((report.requests, report.errors), (400, 0));
    assert!(report.latency.max_us >= 50_000.0, "{:?}", report.latency);
    // The call due half a millisecond after the one that stalled could not be sent before it ended,
    // and of the hundred due during the stall, the earlier half waited for most of it.
    let delay = report.send_delay.unwrap();
    assert!(delay.max_us >= 45_000.0, "{delay:?}");
    assert!(report.latency.p90_us >= 20_000.0, "{:?}", report.latency);
}

#[test]
fn calls_are_not_sent_before_they_are_due() {
    let server = Server::start(Setup::http(|_| Reply::http(200)));
    for poisson in [false, true] {
        let pace = Pace::Open { per_second: 1_000.0, poisson };
        let plan = Plan { pace, ..plan_of(&server.endpoint, 4, 1, 200) };
        let report = drive(&plan, &mut Check::new("localhost", "api", "user")).unwrap();
        assert_eq!((report.requests, report.errors), (200, 0));
        assert!(report.elapsed_s >= 0.1, "{}", report.elapsed_s);
    }
}

#[test]
fn calls_that_never_found_a_stream_are_reported_as_unsent() {
    // Connections are accepted by the backlog of the socket, but never get a response.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(silent.local_addr().unwrap());
    let plan = Plan {
        pace: open(1_000.0),
        length: Length::Time(Duration::from_millis(100)),
        call_timeout: Duration::from_millis(400),
        ..plan_of(&endpoint, 1, 1, 1)
    };
    let report = drive(&plan, &mut Check::new("localhost", "api", "user")).unwrap();
    assert_eq!((report.requests, report.errors, report.unsent), (1, 1, 99));
    assert_eq!(report.error_texts, ["no answer in time"]);
}
