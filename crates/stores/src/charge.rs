//! Charges, which stores settle, and their verdicts.

use smallvec::SmallVec;
use tidegate_core::{Key, Limit, Micros, Outcome, Taken, Verdict};

use crate::error::StoreError;

/// One verdict per charge, in order. Most requests have few limits.
pub type Verdicts = SmallVec<[Verdict; 4]>;

/// Receives the verdicts of charges.
pub trait VerdictSink {
    /// Returns where the verdict of the charge at `index` is written.
    fn verdict_mut(&mut self, index: usize) -> &mut Verdict;
}

impl VerdictSink for Verdicts {
    #[inline]
    fn verdict_mut(&mut self, index: usize) -> &mut Verdict {
        if self.len() <= index {
            self.resize(index + 1, Verdict { outcome: Outcome::Allowed, remaining: 0, reset_after_us: 0 });
        }
        &mut self[index]
    }
}

/// A key, its limit, and what to take of it.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The key of the counter.
    pub key: Key,
    /// The limit of the counter.
    pub limit: &'a Limit,
    /// Units to take; 0 peeks.
    pub cost: u64,
    /// How a denial of this charge affects the request.
    pub force: Force,
    /// Whether the caller can delay the request for as long as a queue requires.
    pub hold: bool,
    /// Whether the charge is taken even if the request is denied.
    pub count_denied: bool,
    /// For concurrency limits: the ID of the slot holder.
    pub lease: u64,
    /// Charges with the same partition are settled on the same server of a store that has several.
    pub partition: u64,
}

/// How a denied charge affects its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It denies the request.
    Enforced,
    /// It does not affect the request: the charge is evaluated and counted only.
    Shadow,
    /// It denies the request if every other quota charge is denied too.
    Quota,
}

/// Whether a settlement charges its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Charges the counters.
    Take,
    /// Returns the verdicts without charging anything.
    Look,
}

/// How a charge whose cost was an estimate is corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Nothing changes. The verdict says what is left of the limit.
    Look,
    /// Refunds the cost to the window or bucket that it was taken from.
    GiveBack(Taken),
    /// Charges the cost even if it does not fit, because it was used already.
    Overdraw,
}

/// The result of each correction, in order: the verdict of a peek after it.
pub type Corrected = SmallVec<[Result<Verdict, StoreError>; 4]>;

/// Verdicts, and the time by the store's clock at which each charge was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// One verdict per charge, in order.
    pub verdicts: Verdicts,
    /// One time per charge, in order: the servers of a store may settle at different times.
    pub at: SmallVec<[Micros; 4]>,
}

/// The result of a settlement that did not wait. Its verdicts are written to a [`VerdictSink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The time of the settlement by the store's clock.
    pub at: Micros,
    /// Whether all verdicts allow their charges.
    pub all_allowed: bool,
}

/// The units that a store has granted of a charge's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How many units were taken: as many as fitted, at most the cost.
    pub units: u64,
    /// The verdict of a charge of that many units; if there are none, the denial of a charge of 1.
    pub verdict: Verdict,
    /// When the units were taken, by the store's clock.
    pub at: Micros,
}

impl<'a> Charge<'a> {
    /// Creates an enforced charge of a request that cannot be held in a queue.
    pub fn new(key: Key, limit: &'a Limit, cost: u64) -> Self {
        let force = Force::Enforced;
        Self { key, limit, cost, force, hold: false, count_denied: false, lease: 0, partition: key.home }
    }
}

/// Returns whether a request with these charges and verdicts is denied: an enforced charge is denied, or all of the
/// quota charges are.
#[inline]
pub fn blocked(charges: &[Charge<'_>], verdicts: &[Verdict]) -> bool {
    blocked_by(charges.iter().map(|charge| charge.force).zip(verdicts))
}

/// Returns whether a request is denied, given the force of each of its charges and the verdict on it: some enforced charge
/// is denied, or all of the quota charges are.
#[inline]
pub fn blocked_by<'v>(settled: impl Iterator<Item = (Force, &'v Verdict)>) -> bool {
    let mut quota_denied = None;
    for (force, verdict) in settled {
        match force {
            Force::Enforced if !verdict.allowed() => return true,
            Force::Quota => quota_denied = Some(quota_denied.unwrap_or(true) && !verdict.allowed()),
            Force::Enforced | Force::Shadow => {}
        }
    }
    quota_denied == Some(true)
}
