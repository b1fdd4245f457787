//! Takes as much of a charge as fits.

use super::MemoryStore;
use super::cell::CellKey;
use super::counter;
use crate::charge::{Charge, Grant};
use crate::error::StoreError;

impl MemoryStore {
    /// Takes as many units of a charge's cost as fit, without waiting.
    ///
    /// # Errors
    /// Returns [`StoreError::Indivisible`] for slots and queues, which cannot be taken in part.
    pub fn take_up_to_now(&self, charge: &Charge<'_>) -> Result<Grant, StoreError> {
        if !charge.limit.is_divisible() {
            return Err(StoreError::Indivisible);
        }
        let key = CellKey::of(charge.key);
        let mut shard = self.shard(key).lock();
        let at = self.now();
        let peek = Charge { cost: 0, count_denied: false, ..*charge };
        let room = counter::assess(&shard, key, &peek, at).verdict.remaining;
        let charge = Charge { cost: charge.cost.min(room.max(1)), ..peek };
        let assessed = counter::assess(&shard, key, &charge, at);
        let verdict = assessed.verdict;
        if !verdict.allowed() {
            counter::carry_on(&mut shard, &charge, &assessed);
            return Ok(Grant { units: 0, verdict, at });
        }
        if charge.cost > 0 {
            counter::take(&mut shard, key, &charge, &assessed, at);
        }
        Ok(Grant { units: charge.cost, verdict, at })
    }
}
