//! A stand-in for the shared store in builds without one. It has no values.

use std::time::Duration;

use tidegate_core::Micros;
use tidegate_stores::{Charge, Corrected, Correction, Intent, MemoryStore, StoreError, Timed};

use crate::decision::Source;
use crate::plan::Plan;
use crate::rules::tree::RuleSet;

/// The shared store, which this build does not have.
pub(crate) enum Shared {}

#[expect(clippy::unused_async, clippy::unused_self, reason = "none of it is ever called")]
impl Shared {
    pub(crate) fn store(&self) -> &MemoryStore {
        match *self {}
    }

    pub(crate) async fn settle(&self, _: &MemoryStore, plan: &mut Plan<'_>, _: Intent) {
        plan.on_store_error(0);
        match *self {}
    }

    pub(crate) fn fall_back(&self, _: &MemoryStore, _: &Plan<'_>, _: Intent) -> Timed {
        match *self {}
    }

    pub(crate) async fn correct(
        &self,
        _: &MemoryStore,
        _: Source,
        _: &[(Charge<'_>, Correction)],
    ) -> Corrected {
        match *self {}
    }

    pub(crate) fn give_back_soon(&self, _: &[Charge<'_>]) {
        match *self {}
    }

    pub(crate) fn release_soon(&self, _: &Charge<'_>) {
        match *self {}
    }

    pub(crate) async fn keep(&self, _: &str, _: &[u8], _: Duration) -> Result<(), StoreError> {
        match *self {}
    }

    pub(crate) async fn take_kept(&self, _: &str, _: u64) -> Result<(Option<Vec<u8>>, Micros), StoreError> {
        match *self {}
    }

    pub(crate) fn about(&self) -> Micros {
        match *self {}
    }

    pub(crate) fn forget_denials(&self) {
        match *self {}
    }

    pub(crate) fn forget_denials_of(&self, before: &RuleSet, now: &RuleSet, _: &[String]) {
        now.changed_counters(before, "", |_| match *self {});
    }
}
