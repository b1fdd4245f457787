//! How much memory the service may use (`memory.max_bytes`), and what of it each part gets.
//!
//! Every part has a share of its own, so that none can take another's: counters are bounded by their number,
//! connections by theirs, bodies and streams by a [`MemoryBudget`] of bytes. What does not fit is refused where
//! it arrives. The shares are estimates. So the process also looks at what it really uses, and while that is
//! near the bound it takes neither new connections nor bodies; what is there goes on, and so do the admin
//! listener and gRPC's health checks over connections that are open.

mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tidegate_http2::MemoryBudget;

pub use self::system::{Source, limit_of_cgroup, resident_bytes};

/// The program itself, its threads and its rules, about.
const BASE_BYTES: u64 = 48 << 20;
/// One counter, as measured, and what the table around it has free.
pub(crate) const KEY_BYTES: u64 = 48;
/// One reservation that waits to be settled.
const RESERVATION_BYTES: u64 = 768;
/// One connection without its buffers for headers: its task, its timers, its place in the tables.
const CONNECTION_BYTES: u64 = 8 << 10;
/// What TLS adds to a connection.
const TLS_BYTES: u64 = 48 << 10;
/// How often the process looks at what it uses.
const LOOK: Duration = Duration::from_millis(50);
/// For how long use that does not grow is waited for to shrink, before it is taken for memory that the
/// allocator keeps and can use again.
const LOOKS_UNTIL_KEPT: u32 = 40;

/// The bound on memory, and what each part has of it. Cheap to clone: all clones are the same.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    limit: u64,
    source: Source,
    bodies: MemoryBudget,
    admin_bodies: MemoryBudget,
    streams: MemoryBudget,
    /// Whether the process is so near its bound that it takes nothing new.
    full: AtomicBool,
    resident: AtomicU64,
    /// Connections that were refused for it.
    shed: AtomicU64,
}

/// Connections that fit, and why not more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCost {
    /// Bytes of one request's headers.
    pub header_bytes: usize,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl Memory {
    /// The bound of the settings; 0 is what the system leaves the process.
    pub fn new(max_bytes: u64) -> Self {
        let (limit, source) = match max_bytes {
            0 => system::limit(),
            bytes => (bytes, Source::Setting),
        };
        Self::of(limit, source)
    }

    /// A bound of so many bytes.
    pub fn of(limit: u64, source: Source) -> Self {
        let usable = limit - BASE_BYTES.min(limit / 4);
        let budget = |bytes: u64| MemoryBudget::new(usize::try_from(bytes).unwrap_or(usize::MAX));
        Self(Arc::new(Parts {
            limit,
            source,
            bodies: budget(usable / 8),
            // A rule file of the largest size, at least.
            admin_bodies: budget((usable / 32).clamp(2 << 20, 64 << 20)),
            streams: budget(usable / 8),
            full: AtomicBool::new(false),
            resident: AtomicU64::new(0),
            shed: AtomicU64::new(0),
        }))
    }

    /// The bound in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Who said so.
    pub fn source(&self) -> Source {
        self.0.source
    }

    fn usable(&self) -> u64 {
        self.0.limit - BASE_BYTES.min(self.0.limit / 4)
    }

    /// Bytes of bodies of the HTTP listener that are being read.
    pub fn bodies(&self) -> &MemoryBudget {
        &self.0.bodies
    }

    /// Bytes of bodies of the admin listener that are being read.
    pub fn admin_bodies(&self) -> &MemoryBudget {
        &self.0.admin_bodies
    }

    /// Bytes that streams and answers of the gRPC listener hold.
    pub fn streams(&self) -> &MemoryBudget {
        &self.0.streams
    }

    /// Counters that fit: half of what is left beside the program.
    pub fn max_keys(&self) -> usize {
        usize::try_from(self.usable() / 2 / KEY_BYTES).unwrap_or(usize::MAX)
    }

    /// Reservations that fit.
    pub fn max_reservations(&self) -> usize {
        usize::try_from(self.usable() / 16 / RESERVATION_BYTES).unwrap_or(usize::MAX)
    }

    /// Connections of one listener that fit: of gRPC and HTTP each has half of a share.
    pub fn max_connections(&self, cost: ConnectionCost) -> usize {
        let each = CONNECTION_BYTES + cost.header_bytes as u64 + if cost.tls { TLS_BYTES } else { 0 };
        usize::try_from(self.usable() * 3 / 32 / each).unwrap_or(usize::MAX).max(1)
    }

    /// Whether nothing new is to be taken.
    pub fn is_full(&self) -> bool {
        self.0.full.load(Relaxed)
    }

    /// Notes that a connection was refused because it is so.
    pub fn note_shed(&self) {
        self.0.shed.fetch_add(1, Relaxed);
    }

    /// Connections that were refused because it was so.
    pub fn shed(&self) -> u64 {
        self.0.shed.load(Relaxed)
    }

    /// What the process used when it looked last; 0 if it cannot tell.
    pub fn resident(&self) -> u64 {
        self.0.resident.load(Relaxed)
    }

    /// Looks at what the process uses for as long as anybody has a clone of this.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn watch(&self) -> std::io::Result<()> {
        let parts = Arc::downgrade(&self.0);
        let look = move || {
            let mut mark = Mark::default();
            while let Some(parts) = parts.upgrade() {
                if let Some(used) = resident_bytes() {
                    parts.resident.store(used, Relaxed);
                    parts.set_full(mark.is_over(used, parts.limit));
                }
                drop(parts);
                thread::sleep(LOOK);
            }
        };
        thread::Builder::new().name("tidegate-memory".to_owned()).spawn(look).map(drop)
    }
}

impl Parts {
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
            tracing::info!(used, limit, "memory is there again");
        }
    }
}

/// From which use on nothing new is taken.
///
/// An allocator keeps some of what was freed, and uses it again before it asks for more. Use that is high and
/// stays as it is may be that. So a mark that was passed rises after a while, up to a last one.
#[derive(Debug, Default)]
pub struct Mark {
    /// The mark, once it has risen.
    risen: u64,
    highest: u64,
    looks: u32,
}

impl Mark {
    /// Whether so many bytes are too many for this bound. Call it once a look.
    pub fn is_over(&mut self, used: u64, limit: u64) -> bool {
        let (first, last) = (limit / 8 * 7, limit / 32 * 31);
        let mark = first.max(self.risen).min(last);
        if used <= mark {
            self.looks = 0;
            self.highest = 0;
            if used < limit / 4 * 3 {
                self.risen = 0;
            }
            return false;
        }
        if used > self.highest {
            self.highest = used;
            self.looks = 0;
        }
        self.looks += 1;
        if self.looks >= LOOKS_UNTIL_KEPT && used < last {
            self.risen = used + limit / 64;
            self.looks = 0;
        }
        true
    }
}
