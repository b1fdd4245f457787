//! What is handed to a store.

use smallvec::SmallVec;
use tidegate_core::{Key, Limit, Micros, Taken, Verdict};

use crate::error::StoreError;

/// One verdict per charge, in order. Most requests have few limits.
pub type Verdicts = SmallVec<[Verdict; 4]>;

/// A key, its limit, and what to take of it.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// Whose counter.
    pub key: Key,
    /// The numbers it is held against.
    pub limit: &'a Limit,
    /// Units to take; 0 peeks.
    pub cost: u64,
    /// What a denial of this charge means for the request.
    pub force: Force,
    /// Whether the caller can hold the request for as long as a queue says.
    pub hold: bool,
    /// Whether the charge is taken even if the request is denied.
    pub count_denied: bool,
    /// For concurrency limits: who holds the slot.
    pub lease: u64,
    /// Charges with the same are kept together where a store has several servers.
    pub part: u64,
}

/// What a denied charge does to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It denies the request.
    Enforced,
    /// Nothing: it is evaluated and counted only.
    Shadow,
    /// It denies the request if every other quota charge is denied too.
    Quota,
}

/// Whether to charge or only to say what would happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Charge.
    Take,
    /// Change nothing.
    Look,
}

/// What is to be done about a charge whose cost was an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Nothing; its limit is looked at.
    Look,
    /// The cost goes back to where it was taken.
    GiveBack(Taken),
    /// The cost was used already, and is charged whether it fits or not.
    Overdraw,
}

/// What became of each correction.
pub type Corrected = SmallVec<[Result<Verdict, StoreError>; 4]>;

/// Verdicts, and when each of the charges was settled by the store's own time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// One per charge.
    pub verdicts: Verdicts,
    /// One per charge: they may have been settled in several places.
    pub at: SmallVec<[Micros; 4]>,
}

impl<'a> Charge<'a> {
    /// An enforced charge that cannot wait.
    pub fn new(key: Key, limit: &'a Limit, cost: u64) -> Self {
        let force = Force::Enforced;
        Self { key, limit, cost, force, hold: false, count_denied: false, lease: 0, part: key.home }
    }
}

/// Whether the request these verdicts belong to is denied: some enforced charge is, or all of the
/// quota charges are.
#[inline]
pub fn blocked(charges: &[Charge<'_>], verdicts: &[Verdict]) -> bool {
    blocked_by(charges.iter().map(|charge| charge.force), verdicts)
}

/// The same by what a denial of each charge means.
#[inline]
pub(crate) fn blocked_by(forces: impl Iterator<Item = Force>, verdicts: &[Verdict]) -> bool {
    let mut quota_denied = None;
    for (force, verdict) in forces.zip(verdicts) {
        match force {
            Force::Enforced if !verdict.allowed() => return true,
            Force::Quota => quota_denied = Some(quota_denied.unwrap_or(true) && !verdict.allowed()),
            Force::Enforced | Force::Shadow => {}
        }
    }
    quota_denied == Some(true)
}
