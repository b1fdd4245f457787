//! Free ports that no outgoing connection takes.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The distance from the port of a cluster node to its cluster bus port.
const BUS: u16 = 10_000;
/// Together with the bus ports, the range stays below the ephemeral ports of the system, so that no outgoing
/// connection takes the port of a server that is being restarted.
const FIRST: u16 = 11_000;
const COUNT: u16 = 10_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns a free port of 127.0.0.1, a different one with each call.
///
/// # Panics
///
/// Panics if no port is free.
pub fn free() -> u16 {
    // Test processes that run at the same time begin at different ports.
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
