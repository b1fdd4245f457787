//! A byte limit that many connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A limit on the bytes that connections, bodies or streams may hold together.
///
/// A caller claims bytes before it holds them, and drops the [`MemoryClaim`] to give them back. A claim that does not
/// fit is refused and changes nothing: the caller must then drop what it was about to hold. Cloning is cheap, and all
/// clones share the same budget.
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
    /// While set, every claim is refused, even if it would fit.
    paused: AtomicBool,
}

/// Bytes claimed from a [`MemoryBudget`]. Dropping the claim returns them.
#[derive(Debug)]
pub struct MemoryClaim {
    budget: MemoryBudget,
    bytes: usize,
}

impl MemoryBudget {
    /// Creates a budget of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let (used, refused, paused) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self(Arc::new(Account { limit, used, refused, paused }))
    }

    /// Creates a budget that counts bytes but never refuses a claim.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Claims `bytes`. Returns `None` if they do not fit or the budget is paused.
    pub fn take(&self, bytes: usize) -> Option<MemoryClaim> {
        self.add(bytes).then(|| MemoryClaim { budget: self.clone(), bytes })
    }

    /// Pauses or resumes the budget. A paused budget refuses every new claim. Used when the whole process is close to
    /// its memory limit.
    pub fn pause(&self, paused: bool) {
        self.0.paused.store(paused, Relaxed);
    }

    /// Returns the number of bytes claimed now.
    pub fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }

    /// Returns the largest number of bytes that can be claimed at once.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Returns how many claims have been refused.
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

/// Returns an unlimited budget.
impl Default for MemoryBudget {
    fn default() -> Self {
        Self::unlimited()
    }
}

impl MemoryClaim {
    /// Adds `more` bytes to this claim. Returns `false` and changes nothing if they do not fit.
    #[must_use]
    pub fn grow(&mut self, more: usize) -> bool {
        let added = self.budget.add(more);
        if added {
            self.bytes += more;
        }
        added
    }

    /// Returns up to `less` bytes to the budget, at most all that the claim holds.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.bytes);
        self.bytes -= less;
        self.budget.0.used.fetch_sub(less, Relaxed);
    }

    /// Returns the number of bytes in this claim.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}
