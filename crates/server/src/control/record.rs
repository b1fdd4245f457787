//! Writing changes down in the audit files.
//!
//! The catalog has every change, in the transaction that made it. The files of the node that took it have it
//! too, unless the catalog could not be asked for it just then, or fell silent while it was committed: such
//! changes wait here until they can be told.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tidegate::Micros;
use tidegate_audit::Change;
use tidegate_catalog::{AuditEntry, By, Error};

use super::Control;

/// How long the answer to an administrator waits for the audit trail's disk.
const TRAIL_DEADLINE: Duration = Duration::from_secs(2);
/// How many changes wait at most; what is more than that is counted as lost.
const MAX_WAITING: usize = 1_000;

/// Changes that are not in the audit files yet.
#[derive(Default)]
pub(super) struct Unrecorded(Mutex<VecDeque<Waiting>>);

/// A change that is not in the audit files yet.
enum Waiting {
    /// It was made, and is to be read from the catalog by its revision.
    Made { by: By, revision: u64 },
    /// Whether it was made is not known; its caller was told so.
    Uncertain(Box<AuditEntry>),
}

impl Control {
    /// Writes down a change that was made, by the number of its entry in the catalog.
    pub(super) async fn record(&self, by: &By, revision: u64) {
        if self.0.trail.is_none() {
            return;
        }
        if let Err(error) = self.try_record(by, revision).await {
            tracing::warn!(
                %error, by.request_id,
                "a change is not in the audit files yet; the catalog has it, and it is tried again"
            );
            self.wait_for(Waiting::Made { by: by.clone(), revision });
        }
    }

    /// Keeps a change in mind of which it is not known whether it was made.
    pub(super) fn record_uncertain(&self, entry: AuditEntry) {
        tracing::error!(
            action = entry.action,
            object = entry.object,
            request_id = entry.request_id,
            "it is not known whether a change was made; that is found out once the catalog answers"
        );
        self.wait_for(Waiting::Uncertain(Box::new(entry)));
    }

    /// Writes down a change of this node alone, which the catalog does not have.
    pub(super) async fn record_own(&self, change: Change) {
        let Some(trail) = &self.0.trail else { return };
        let request_id = change.request_id.clone();
        if let Err(error) = trail.record_and_wait(change).within(TRAIL_DEADLINE).await {
            tracing::warn!(%error, request_id, "a change of this node alone is not in the audit files");
        }
    }

    /// Writes down what could not be written down before. The catalog answers now.
    pub(super) async fn record_waiting(&self) {
        // At most as many as there are: some may have to go on waiting.
        for _ in 0..self.waiting() {
            let Some(waiting) = self.next_waiting() else { return };
            let recorded = match &waiting {
                Waiting::Made { by, revision } => self.try_record(by, *revision).await,
                Waiting::Uncertain(entry) => self.find_out(entry).await,
            };
            if recorded.is_err() {
                self.wait_for(waiting);
                return;
            }
        }
    }

    async fn try_record(&self, by: &By, revision: u64) -> Result<(), Error> {
        match self.0.catalog.audit_entry(revision).await {
            // What changed nothing was written down when it did.
            Ok(entry) if entry.at != whole_us(by.at) || entry.request_id != by.request_id => {}
            Ok(entry) => self.put_down(entry).await,
            // Nor is what did so long ago that it is not kept.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Finds out whether a change was made whose caller was told that it is not known.
    async fn find_out(&self, entry: &AuditEntry) -> Result<(), Error> {
        let made = self.0.catalog.has_happened(entry).await?;
        tracing::warn!(
            made,
            action = entry.action,
            object = entry.object,
            request_id = entry.request_id,
            "it is known now whether a change was made"
        );
        if !made {
            return Ok(());
        }
        // Nobody was shown the secret of a token. It is revoked before anything is written down, because all of
        // this is done again if that fails.
        let revoked = if entry.action == "create_token" {
            let by = By::new(&entry.actor, &entry.request_id, self.now());
            let token = self.0.catalog.revoke_token(&entry.object, &by).await?;
            Some((by, token.revision))
        } else {
            None
        };
        self.put_down(entry.clone()).await;
        if let Some((by, revision)) = revoked {
            self.record(&by, revision).await;
        }
        Ok(())
    }

    async fn put_down(&self, entry: AuditEntry) {
        let Some(trail) = &self.0.trail else { return };
        let request_id = entry.request_id.clone();
        // The trail counts what it does not write.
        if let Err(error) = trail.record_and_wait(self.change(entry)).within(TRAIL_DEADLINE).await {
            tracing::warn!(%error, request_id, "a change is not in the audit files; the catalog has it");
        }
    }

    fn change(&self, entry: AuditEntry) -> Change {
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

    fn waiting(&self) -> usize {
        self.0.unrecorded.0.lock().len()
    }

    fn next_waiting(&self) -> Option<Waiting> {
        let mut all = self.0.unrecorded.0.lock();
        let next = all.pop_front();
        self.0.health.set_unrecorded(all.len());
        next
    }

    fn wait_for(&self, waiting: Waiting) {
        let mut all = self.0.unrecorded.0.lock();
        if all.len() >= MAX_WAITING {
            self.0.health.lose_record();
            return;
        }
        all.push_back(waiting);
        self.0.health.set_unrecorded(all.len());
    }
}

pub(super) fn micros(at: Timestamp) -> Micros {
    Micros(u64::try_from(at.as_microsecond()).unwrap_or_default())
}

/// As the catalog keeps it.
fn whole_us(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
