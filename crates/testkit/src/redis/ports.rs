//! Ports that stay free while nobody listens on them.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Nodes of a cluster listen on a second port, this much higher.
const BUS: u16 = 10_000;
/// Below what systems hand to outgoing connections, bus ports too, so that none of these takes the port of
/// a server that is just being restarted.
const FIRST: u16 = 11_000;
const COUNT: u16 = 10_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 that nobody listens on, another one each time.
///
/// # Panics
///
/// If all are taken.
pub fn free() -> u16 {
    // Test processes that run at once begin at different places.
    let start = (process::id().wrapping_mul(2_654_435_761) >> 16) as u16 % COUNT;
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(1, Relaxed) % COUNT) % COUNT;
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
    panic!("no port from {FIRST} to {} is free", FIRST + COUNT - 1);
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
