//! Ports that stay free while nobody listens on them.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Below what systems hand to outgoing connections, so that none of these takes a port whose service
/// is just being restarted.
const FIRST: u16 = 12_000;
const COUNT: u16 = 18_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 that nobody listens on, another one each time.
pub(crate) fn free() -> u16 {
    // Test processes that run at once begin at different places.
    let start = (process::id().wrapping_mul(2_654_435_761) >> 16) as u16;
    for _ in 0..COUNT {
        let port = FIRST + start.wrapping_add(NEXT.fetch_add(1, Relaxed)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
