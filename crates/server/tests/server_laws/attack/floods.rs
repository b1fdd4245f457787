//! Floods over HTTP/2 to the gRPC listener: all of them in the long form, one in the short one, where the laws of
//! `floods` have the rest.
#![expect(clippy::disallowed_methods, reason = "attacks on another process happen in real time")]

use std::thread;
use std::time::{Duration, Instant};

use tidegate_testkit::floods::{FLOODS, Stop};

use super::arena::{Arena, RULES, duration, is_full};
use crate::support::service::Setup;

const SHORT: &str = "grants of one byte";

#[test]
fn floods_over_http2() {
    for flood in FLOODS.iter().filter(|flood| is_full() || flood.name == SHORT) {
        let mut arena = Arena::new(flood.name, Setup::rules(RULES));
        arena.tries(format!("as many as fit over HTTP/2, {} connections at once", flood.connections));
        let (at, stop) = (arena.service.grpc, Stop::at(Instant::now() + duration()));
        let flooding = thread::spawn(move || flood.run(at, &stop));
        while !flooding.is_finished() {
            arena.look();
            thread::sleep(Duration::from_millis(20));
        }
        let sent = flooding.join().expect("it ends");
        arena.held(&format!("{} KiB taken on {} connections", sent.bytes >> 10, sent.connections));
    }
}
