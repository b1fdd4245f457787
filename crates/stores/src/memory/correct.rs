//! Corrects charges whose cost was an estimate.

use smallvec::smallvec;
use tidegate_core::Verdict;

use super::MemoryStore;
use super::cell::CellKey;
use super::counter;
use crate::charge::{Charge, Correction, Intent, Timed, Verdicts};

impl MemoryStore {
    /// Settles like [`MemoryStore::settle_now`], and also returns when that was.
    pub fn settle_timed_now(&self, charges: &[Charge<'_>], intent: Intent) -> Timed {
        let mut verdicts = Verdicts::new();
        let at = self.settle_now(charges, intent, &mut verdicts).at;
        Timed { at: smallvec![at; charges.len()], verdicts }
    }

    /// Corrects charges without waiting.
    pub fn correct_now(&self, corrections: &[(Charge<'_>, Correction)]) -> Verdicts {
        corrections.iter().map(|(charge, correction)| self.correct_one(charge, *correction)).collect()
    }

    fn correct_one(&self, charge: &Charge<'_>, correction: Correction) -> Verdict {
        let key = CellKey::of(charge.key);
        let mut shard = self.shard(key).lock();
        let now = self.now();
        match correction {
            Correction::Look => {}
            Correction::GiveBack(taken) => counter::give_back(&mut shard, key, charge, Some(taken), now),
            Correction::Overdraw => counter::overdraw(&mut shard, key, charge, now),
        }
        let peek = Charge { cost: 0, count_denied: false, ..*charge };
        counter::assess(&shard, key, &peek, now).verdict
    }
}
