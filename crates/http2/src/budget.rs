//! A bound on bytes that many connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes that the holders of one kind of thing (connections, bodies, streams) may use together.
///
/// Whoever wants to hold bytes takes them first and drops the [`MemoryClaim`] when it is done. A claim that
/// does not fit is refused, and nothing else changes: the caller sheds what it was about to hold. Cheap to
/// clone: all clones are the same budget.
///
/// ```
/// use tidegate_http2::MemoryBudget;
///
/// let bodies = MemoryBudget::new(1000);
/// let mut one = bodies.take(600).unwrap();
/// assert!(bodies.take(600).is_none());
/// assert!(!one.grow(500) && one.grow(400));
/// drop(one);
/// assert_eq!((bodies.used(), bodies.refused()), (0, 2));
/// ```
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: usize,
    used: AtomicUsize,
    refused: AtomicU64,
    /// Nothing more is granted while this is set, whatever is left.
    paused: AtomicBool,
}

/// Bytes taken from a [`MemoryBudget`], given back when this is dropped.
#[derive(Debug)]
pub struct MemoryClaim {
    budget: MemoryBudget,
    bytes: usize,
}

impl MemoryBudget {
    /// A budget of at most so many bytes.
    pub fn new(limit: usize) -> Self {
        let (used, refused, paused) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self(Arc::new(Account { limit, used, refused, paused }))
    }

    /// A budget that counts and never runs out.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Takes bytes; `None` if they do not fit, or while the budget is paused.
    pub fn take(&self, bytes: usize) -> Option<MemoryClaim> {
        self.add(bytes).then(|| MemoryClaim { budget: self.clone(), bytes })
    }

    /// Refuses every further claim until it is called with `false`. For a process that as a whole has come
    /// near its bound, whatever the single budgets say.
    pub fn pause(&self, paused: bool) {
        self.0.paused.store(paused, Relaxed);
    }

    /// Bytes that are taken now.
    pub fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }

    /// The most bytes that may be taken at once.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// How often a claim was refused.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }

    fn add(&self, bytes: usize) -> bool {
        let account = &*self.0;
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= account.limit);
        let added = bytes == 0
            || (!account.paused.load(Relaxed) && account.used.fetch_update(Relaxed, Relaxed, fits).is_ok());
        if !added {
            account.refused.fetch_add(1, Relaxed);
        }
        added
    }
}

/// One that never runs out.
impl Default for MemoryBudget {
    fn default() -> Self {
        Self::unlimited()
    }
}

impl MemoryClaim {
    /// Takes more bytes into this claim; `false`, and nothing changed, if they do not fit.
    #[must_use]
    pub fn grow(&mut self, more: usize) -> bool {
        let added = self.budget.add(more);
        if added {
            self.bytes += more;
        }
        added
    }

    /// Gives back so many bytes, at most all.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.bytes);
        self.bytes -= less;
        self.budget.0.used.fetch_sub(less, Relaxed);
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}
