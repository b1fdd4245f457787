//! Records changes in the audit files.
//!
//! The catalog has every change in the transaction that made it, and hands its audit entry over when it is committed.
//! If the database does not answer a commit, it is not known whether the change was made: such entries are kept here
//! until the catalog can be asked.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tidegate::Micros;
use tidegate_audit::Change;
use tidegate_catalog::{AuditEntry, By, Error, Journal};

use super::Control;

/// How long the answer to an administrator waits for the disk of the audit trail.
const TRAIL_DEADLINE: Duration = Duration::from_secs(2);
/// How many entries are kept at most; further ones are counted as lost.
const MAX_UNCERTAIN: usize = 1_000;

/// Entries of changes that may have been made or not.
#[derive(Default)]
pub(super) struct Uncertain(Mutex<VecDeque<AuditEntry>>);

impl Control {
    /// Records the changes that were committed with this journal.
    pub(super) async fn record(&self, journal: &Journal) {
        for entry in journal.take() {
            self.record_change(self.audit_record(entry)).await;
        }
    }

    /// Records a change. The trail counts what it cannot write.
    pub(super) async fn record_change(&self, change: Change) {
        let Some(trail) = &self.0.trail else { return };
        let request_id = change.request_id.clone();
        if let Err(error) = trail.record_and_wait(change).within(TRAIL_DEADLINE).await {
            tracing::warn!(%error, request_id, "a change was made, but is not in the audit files yet");
        }
    }

    /// Keeps the entry of a change that may have been made or not.
    pub(super) fn keep_uncertain(&self, entry: AuditEntry) {
        tracing::error!(
            action = entry.action,
            object = entry.object,
            request_id = entry.request_id,
            "the catalog did not answer a commit; the change may have been made or not"
        );
        self.put_uncertain(entry);
    }

    /// Looks into the changes that may have been made or not, and records those that were. The catalog is reachable.
    pub(super) async fn resolve_uncertain(&self) {
        // At most as many as there are now: some may stay unknown.
        let count = self.0.uncertain.0.lock().len();
        for _ in 0..count {
            let Some(entry) = self.next_uncertain() else { return };
            if self.resolve(&entry).await.is_err() {
                self.put_uncertain(entry);
                return;
            }
        }
    }

    async fn resolve(&self, entry: &AuditEntry) -> Result<(), Error> {
        let made = self.0.catalog.has_happened(entry).await?;
        tracing::warn!(
            made,
            action = entry.action,
            object = entry.object,
            request_id = entry.request_id,
            "the catalog knows now whether a change was made"
        );
        if !made {
            return Ok(());
        }
        // Nobody has seen the secret of a token whose creation was not confirmed. It is revoked before anything is
        // recorded, because all of this is repeated if that fails.
        let journal = Journal::default();
        if entry.action == "create_token" {
            let by = By::new(&entry.actor, &entry.request_id, self.now());
            self.0.catalog.with_journal(&journal).revoke_token(&entry.object, &by).await?;
        }
        self.record_change(self.audit_record(entry.clone())).await;
        self.record(&journal).await;
        Ok(())
    }

    fn audit_record(&self, entry: AuditEntry) -> Change {
        Change {
            at: micros(entry.at),
            actor: entry.actor,
            action: entry.action,
            object: entry.object,
            before: entry.before,
            after: entry.after,
            request_id: entry.request_id,
            node: self.0.node.clone(),
        }
    }

    fn next_uncertain(&self) -> Option<AuditEntry> {
        let mut all = self.0.uncertain.0.lock();
        let next = all.pop_front();
        self.0.health.set_unrecorded(all.len());
        next
    }

    fn put_uncertain(&self, entry: AuditEntry) {
        let mut all = self.0.uncertain.0.lock();
        if all.len() >= MAX_UNCERTAIN {
            self.0.health.lose_record();
            return;
        }
        all.push_back(entry);
        self.0.health.set_unrecorded(all.len());
    }
}

pub(super) fn micros(at: Timestamp) -> Micros {
    Micros(u64::try_from(at.as_microsecond()).unwrap_or_default())
}
