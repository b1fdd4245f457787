//! The bound on the memory of the service (`memory.max_bytes`), and how it is divided.
//!
//! Each use of memory has its own share, so that none can use up another's: counters and connections are limited by
//! their number, bodies and streams by a [`MemoryBudget`] of bytes. What does not fit is rejected when it arrives.
//! The shares are estimates. So the process also measures its real memory use, and while that is near the limit, it
//! accepts neither new connections nor bodies. Requests in progress continue, and so do the admin listener and gRPC
//! health checks over open connections.

mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tidegate_http2::MemoryBudget;

pub use self::system::{Source, limit_of_cgroup, resident_bytes};

/// The estimated memory of the program itself, its threads and its rules.
const BASE_BYTES: u64 = 48 << 20;
/// The measured memory of one counter, with its part of the unused table space.
pub(crate) const KEY_BYTES: u64 = 48;
/// The memory of one reservation.
pub(crate) const RESERVATION_BYTES: u64 = 768;
/// The memory of one connection without its buffers for headers: its task, its timers, its table entries.
const CONNECTION_BYTES: u64 = 8 << 10;
/// The memory of a request that waits for a store, beside twice its message: its task and its response.
const DECIDING_BYTES: usize = 4 << 10;
/// The measured memory of a tenant with an override.
pub(crate) const TENANT_BYTES: u64 = 192;
/// The memory of one rule, with its limits, texts and counts.
pub(crate) const RULE_BYTES: u64 = 1 << 10;
/// The memory of one limit that is given in a request.
pub(crate) const INLINE_LIMIT_BYTES: u64 = 1 << 10;
/// The memory that TLS adds to a connection.
const TLS_BYTES: u64 = 48 << 10;
/// How often the process measures its memory.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// After how many checks without growth, memory above the mark is considered to be free memory of the allocator.
const CHECKS_UNTIL_RAISED: u32 = 40;

/// Returns the memory of a request that waits for a store, by the bytes of its message: the message, about as much again
/// for what is parsed of it, and a fixed part.
pub(crate) fn deciding_bytes(message_bytes: usize) -> usize {
    message_bytes.saturating_mul(2).saturating_add(DECIDING_BYTES)
}

/// The bound on memory, and its shares. Clones share their state.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Shares>);

#[derive(Debug)]
struct Shares {
    limit: u64,
    source: Source,
    bodies: MemoryBudget,
    admin_bodies: MemoryBudget,
    streams: MemoryBudget,
    deciding: MemoryBudget,
    /// Whether the process is so near its bound that it accepts nothing new.
    full: AtomicBool,
    resident: AtomicU64,
    /// Connections that were refused because of that.
    shed: AtomicU64,
}

/// The sizes that determine the memory of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCost {
    /// The maximum size of a request's headers in bytes.
    pub header_bytes: usize,
    /// Whether it uses TLS.
    pub tls: bool,
}

impl Memory {
    /// Returns the bound of the settings; 0 means a share of the system's memory.
    pub fn new(max_bytes: u64) -> Self {
        let (limit, source) = match max_bytes {
            0 => system::limit(),
            bytes => (bytes, Source::Setting),
        };
        Self::of(limit, source)
    }

    /// Returns a bound of `limit` bytes.
    pub fn of(limit: u64, source: Source) -> Self {
        let usable = limit - BASE_BYTES.min(limit / 4);
        let budget = |bytes: u64| MemoryBudget::new(usize::try_from(bytes).unwrap_or(usize::MAX));
        Self(Arc::new(Shares {
            limit,
            source,
            bodies: budget(usable / 32 * 3),
            // At least a rule file of the maximum size.
            admin_bodies: budget((usable / 32).clamp(2 << 20, 64 << 20)),
            streams: budget(usable / 32 * 3),
            deciding: budget(usable / 16),
            full: AtomicBool::new(false),
            resident: AtomicU64::new(0),
            shed: AtomicU64::new(0),
        }))
    }

    /// Returns the bound in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Returns the source of the bound.
    pub fn source(&self) -> Source {
        self.0.source
    }

    fn usable(&self) -> u64 {
        self.0.limit - BASE_BYTES.min(self.0.limit / 4)
    }

    /// Returns the budget for bodies that the HTTP listener reads.
    pub fn bodies(&self) -> &MemoryBudget {
        &self.0.bodies
    }

    /// Returns the budget for bodies that the admin listener reads.
    pub fn admin_bodies(&self) -> &MemoryBudget {
        &self.0.admin_bodies
    }

    /// Returns the budget for streams and responses of the gRPC listener.
    pub fn streams(&self) -> &MemoryBudget {
        &self.0.streams
    }

    /// Returns the budget for requests that wait for a store, over gRPC and HTTP. It is not paused while memory is short:
    /// what is in progress has to be decided.
    pub fn deciding(&self) -> &MemoryBudget {
        &self.0.deciding
    }

    /// Returns how many counters fit into nearly half of the memory.
    pub fn max_keys(&self) -> usize {
        usize::try_from(self.usable() / 32 * 15 / KEY_BYTES).unwrap_or(usize::MAX)
    }

    /// Returns how many reservations fit.
    pub fn max_reservations(&self) -> usize {
        usize::try_from(self.usable() / 16 / RESERVATION_BYTES).unwrap_or(usize::MAX)
    }

    /// Returns how many limits of requests fit.
    pub fn max_inline_limits(&self) -> usize {
        usize::try_from(self.usable() / 32 / INLINE_LIMIT_BYTES).unwrap_or(usize::MAX)
    }

    /// Returns how many connections of one of two listeners fit.
    pub fn max_connections(&self, cost: ConnectionCost) -> usize {
        let each = CONNECTION_BYTES + cost.header_bytes as u64 + if cost.tls { TLS_BYTES } else { 0 };
        usize::try_from(self.usable() * 3 / 32 / each).unwrap_or(usize::MAX).max(1)
    }

    /// Returns whether new connections and bodies are refused.
    pub fn is_full(&self) -> bool {
        self.0.full.load(Relaxed)
    }

    /// Counts a connection that was refused because of that.
    pub fn note_shed(&self) {
        self.0.shed.fetch_add(1, Relaxed);
    }

    /// Returns how many connections were refused because of that.
    pub fn shed(&self) -> u64 {
        self.0.shed.load(Relaxed)
    }

    /// Returns the memory of the process at the last check, in bytes; 0 if it is not known.
    pub fn resident(&self) -> u64 {
        self.0.resident.load(Relaxed)
    }

    /// Starts a thread that measures the memory of the process until all clones are dropped.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub fn watch(&self) -> std::io::Result<()> {
        let shares = Arc::downgrade(&self.0);
        let measure = move || {
            let mut mark = HighWaterMark::default();
            while let Some(shares) = shares.upgrade() {
                if let Some(used) = resident_bytes() {
                    shares.resident.store(used, Relaxed);
                    shares.set_full(mark.is_over(used, shares.limit));
                }
                drop(shares);
                thread::sleep(CHECK_INTERVAL);
            }
        };
        thread::Builder::new().name("tidegate-memory".to_owned()).spawn(measure).map(drop)
    }
}

impl Shares {
    fn set_full(&self, full: bool) {
        if self.full.swap(full, Relaxed) == full {
            return;
        }
        for budget in [&self.bodies, &self.streams] {
            budget.pause(full);
        }
        let (used, limit) = (self.resident.load(Relaxed), self.limit);
        if full {
            tracing::warn!(used, limit, "memory is nearly used up: new connections and bodies are refused");
        } else {
            tracing::info!(used, limit, "memory is available again");
        }
    }
}

/// The memory above which nothing new is accepted.
///
/// An allocator keeps some freed memory, and reuses it before it asks the system for more. Usage that is high and does not
/// grow may be such memory. So a mark that was exceeded rises after a while, up to a last one.
#[derive(Debug, Default)]
pub struct HighWaterMark {
    /// The mark after it has risen.
    risen: u64,
    highest: u64,
    checks: u32,
}

impl HighWaterMark {
    /// Returns whether the usage is too high for this bound. To be called once per check.
    pub fn is_over(&mut self, used: u64, limit: u64) -> bool {
        let (first, last) = (limit / 8 * 7, limit / 32 * 31);
        let mark = first.max(self.risen).min(last);
        if used <= mark {
            self.checks = 0;
            self.highest = 0;
            if used < limit / 4 * 3 {
                self.risen = 0;
            }
            return false;
        }
        if used > self.highest {
            self.highest = used;
            self.checks = 0;
        }
        self.checks += 1;
        if self.checks >= CHECKS_UNTIL_RAISED && used < last {
            self.risen = used + limit / 64;
            self.checks = 0;
        }
        true
    }
}
