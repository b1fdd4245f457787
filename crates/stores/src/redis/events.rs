//! Counts and logs failures of a store's servers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::node::Node;
use crate::error::StoreError;

/// Counts failures by kind, and logs them.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) late: AtomicU64,
    pub(super) unreachable: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) garbled: AtomicU64,
    pub(super) foreign: AtomicU64,
    pub(super) full: AtomicU64,
    pub(super) lost_refunds: AtomicU64,
}

/// Number of failures of the servers, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Batches whose reply did not arrive in time.
    pub late: u64,
    /// Batches that did not reach a server.
    pub unreachable: u64,
    /// Batches that a server rejected with an error.
    pub refused: u64,
    /// Batches whose reply had the wrong shape.
    pub garbled: u64,
    /// Requests whose key holds data that another program has written.
    pub foreign: u64,
    /// Requests that were rejected because too many were waiting.
    pub full: u64,
    /// Charges that could not be refunded.
    pub lost_refunds: u64,
}

impl Events {
    pub(super) fn counts(&self) -> Failures {
        Failures {
            late: self.late.load(Relaxed),
            unreachable: self.unreachable.load(Relaxed),
            refused: self.refused.load(Relaxed),
            garbled: self.garbled.load(Relaxed),
            foreign: self.foreign.load(Relaxed),
            full: self.full.load(Relaxed),
            lost_refunds: self.lost_refunds.load(Relaxed),
        }
    }

    /// Counts a failed batch.
    pub(super) fn failed(&self, node: &Node, error: &StoreError) {
        let counter = match error {
            StoreError::Late => &self.late,
            StoreError::Unreachable(_) | StoreError::Broken(_) | StoreError::Open => &self.unreachable,
            StoreError::Full => &self.full,
            StoreError::Refused(_) => &self.refused,
            StoreError::Garbled => &self.garbled,
            StoreError::Foreign => &self.foreign,
            // An error of the caller: no server has seen it.
            StoreError::Indivisible => return,
        };
        counter.fetch_add(1, Relaxed);
        tracing::debug!(server = node.name, %error, "a batch failed");
    }

    /// Counts requests of a batch whose counters another program has overwritten; the others were settled.
    pub(super) fn found_foreign(&self, node: &Node, requests: u64) {
        if requests > 0 && self.foreign.fetch_add(requests, Relaxed) == 0 {
            let error = StoreError::Foreign;
            tracing::warn!(server = node.name, %error, "rules decide by on_store_error for these counters; logged once");
        }
    }

    #[expect(clippy::unused_self, reason = "all events are logged here")]
    pub(super) fn opened(&self, node: &Node, error: &StoreError) {
        tracing::warn!(server = node.name, %error, "the store fails: rules decide by on_store_error");
    }

    #[expect(clippy::unused_self, reason = "all events are logged here")]
    pub(super) fn closed(&self, node: &Node) {
        tracing::info!(server = node.name, "the store is back");
    }
}
