//! Records changes in the audit files.
//!
//! The catalog stores every change in the transaction that made it, and announces its audit entry before that is
//! committed. From then on the entry is in the [`Outbox`](super::outbox::Outbox), until the audit files have it. If
//! the database does not reply to a commit, it is unknown whether the change was made: the catalog is asked later.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use tidegate::Micros;
use tidegate_audit::{Change, Event, Filter};
use tidegate_catalog::{AuditEntry, By, Error, Journal};

use super::Control;
use super::outbox::{Kept, Outbox};

/// How long the response to an administrator waits for the disk of the audit log.
const TRAIL_DEADLINE: Duration = Duration::from_secs(2);
/// How long a change waits for the disk of the audit trail in the background: as long as this process runs.
const TRAIL_PATIENCE: Duration = Duration::from_hours(24 * 365);
/// How many changes of which it is not known whether they were made are kept at most; further ones are lost.
const MAX_UNCERTAIN: usize = 1_000;

/// Changes that may have been made or not.
#[derive(Default)]
pub(super) struct Uncertain(Mutex<VecDeque<Kept>>);

/// The changes that one write of an administrator has announced. Clones share them.
#[derive(Clone)]
pub(super) struct Announced {
    outbox: Outbox,
    kept: Arc<Mutex<Vec<Kept>>>,
}

impl Announced {
    pub(super) fn new(outbox: &Outbox) -> Self {
        Self { outbox: outbox.clone(), kept: Arc::default() }
    }

    /// Returns a journal that keeps each entry before it is committed.
    pub(super) fn journal(&self) -> Journal {
        let announced = self.clone();
        Journal::announcing(move |entry| -> BoxFuture<'static, ()> {
            let announced = announced.clone();
            async move {
                let kept = announced.outbox.keep_entry(entry).await;
                announced.kept.lock().push(kept);
            }
            .boxed()
        })
    }

    /// Takes out the change of an entry.
    async fn take(&self, entry: &AuditEntry) -> Kept {
        let found = {
            let mut all = self.kept.lock();
            all.iter().position(|kept| kept.is(entry)).map(|index| all.remove(index))
        };
        match found {
            Some(kept) => kept,
            None => self.outbox.keep_entry(entry.clone()).await,
        }
    }

    /// Forgets the changes that were not made.
    pub(super) async fn forget_rest(self) {
        let rest = std::mem::take(&mut *self.kept.lock());
        for kept in rest {
            kept.remove().await;
        }
    }
}

impl Control {
    /// Records the changes that were committed with this journal.
    pub(super) async fn record(&self, journal: &Journal, announced: &Announced) {
        for entry in journal.take() {
            let kept = announced.take(&entry).await;
            self.record_kept(kept).await;
        }
    }

    /// Notes that the changes of this journal were made, so that they need not be looked into if this process dies.
    pub(super) async fn note_made(&self, journal: &Journal, announced: &Announced) {
        for entry in journal.entries() {
            let mut kept = announced.take(&entry).await;
            kept.set_made().await;
            announced.kept.lock().push(kept);
        }
    }

    /// Records a change that this node alone has made.
    pub(super) async fn record_local(&self, change: Change) {
        let kept = self.0.outbox.keep_local(change).await;
        self.record_kept(kept).await;
    }

    /// Records a change, which stays kept until the audit files have it. Waits for the disk for a while.
    async fn record_kept(&self, kept: Kept) {
        self.mark(kept.change());
        let Some(trail) = &self.0.trail else { return kept.remove().await };
        let request_id = kept.change().request_id.clone();
        let written = trail.record_and_wait(kept.change().clone());
        let recorded = tokio::spawn(async move {
            // A change that was dropped stays: the next process records it.
            written.within(TRAIL_PATIENCE).await?;
            kept.remove().await;
            Ok::<(), tidegate_audit::NotWritten>(())
        });
        let late = match tokio::time::timeout(TRAIL_DEADLINE, recorded).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) | Err(_) => tidegate_audit::NotWritten::Late,
        };
        tracing::warn!(error = %late, request_id, "a change was made, but is not in the audit files yet");
    }

    /// Marks a change of a tenant on the charts. Rules and switches are marked when they are in force.
    fn mark(&self, change: &Change) {
        let of_tenant = ["tenant", "quota", "usage"].iter().any(|noun| change.action.contains(noun));
        if let Some(recorder) = self.0.recorder.get().filter(|_| of_tenant) {
            let Change { actor, action, object, .. } = change;
            recorder.mark("quota", format!("{} {object} by {actor}", action.replace('_', " ")));
        }
    }

    /// Keeps a change that may have been made or not.
    pub(super) async fn keep_uncertain(&self, entry: &AuditEntry, announced: &Announced) {
        tracing::error!(
            action = entry.action,
            object = entry.object,
            request_id = entry.request_id,
            "the catalog did not answer a commit; the change may have been made or not"
        );
        let kept = announced.take(entry).await;
        self.put_uncertain(kept);
    }

    /// Looks into what an earlier process has left behind.
    pub(super) async fn take_over(&self, left_behind: Vec<Kept>, audit: &Path) {
        if !left_behind.is_empty() {
            tracing::warn!(
                changes = left_behind.len(),
                "the last process ended before these changes were in the audit files; they are looked into now"
            );
        }
        for kept in left_behind {
            if !kept.is_made() {
                self.put_uncertain(kept);
            } else if is_recorded(kept.change().clone(), audit.to_owned()).await {
                kept.remove().await;
            } else {
                self.record_kept(kept).await;
            }
        }
    }

    /// Looks into the changes that may have been made or not, and records those that were. The catalog is reachable.
    pub(super) async fn resolve_uncertain(&self) {
        // At most as many as there are now: some may stay unknown.
        let count = self.0.uncertain.0.lock().len();
        for _ in 0..count {
            let next = self.0.uncertain.0.lock().pop_front();
            let Some(kept) = next else { return };
            match self.resolve(&kept).await {
                Ok(true) => self.record_kept(kept).await,
                Ok(false) => kept.remove().await,
                Err(_) => return self.put_uncertain(kept),
            }
        }
    }

    /// Returns whether a change was made.
    async fn resolve(&self, kept: &Kept) -> Result<bool, Error> {
        let Some(entry) = kept.entry() else { return Ok(true) };
        let made = self.0.catalog.has_happened(&entry).await?;
        tracing::warn!(
            made,
            action = entry.action,
            object = entry.object,
            request_id = entry.request_id,
            "the catalog knows now whether a change was made"
        );
        // No one has seen the secret of a token whose creation was not confirmed. It is revoked before anything is
        // recorded, because all of this is repeated if that fails.
        if made && entry.action == "create_token" {
            let announced = Announced::new(&self.0.outbox);
            let journal = announced.journal();
            let by = By::new(&entry.actor, &entry.request_id, self.now());
            self.0.catalog.with_journal(&journal).revoke_token(&entry.object, &by).await?;
            self.record(&journal, &announced).await;
            announced.forget_rest().await;
        }
        Ok(made)
    }

    fn put_uncertain(&self, kept: Kept) {
        let mut all = self.0.uncertain.0.lock();
        if all.len() >= MAX_UNCERTAIN {
            self.0.health.lose_record();
            return;
        }
        all.push_back(kept);
    }
}

/// Returns whether the audit files have a change.
async fn is_recorded(change: Change, audit: std::path::PathBuf) -> bool {
    let filter = Filter {
        kind: Some("change".to_owned()),
        from: Some(change.at),
        to: Some(Micros(change.at.0 + 1)),
        ..Filter::default()
    };
    let found = tokio::task::spawn_blocking(move || {
        let page = tidegate_audit::read(&audit, &filter, 1_000)?;
        let same = |event: &Event| {
            matches!(event, Event::Change(known) if known.request_id == change.request_id
                && known.action == change.action
                && known.object == change.object)
        };
        Ok::<bool, std::io::Error>(page.entries.iter().any(|entry| same(&entry.event)))
    });
    matches!(found.await, Ok(Ok(true)))
}

pub(super) fn micros(at: Timestamp) -> Micros {
    Micros(u64::try_from(at.as_microsecond()).unwrap_or_default())
}

/// The inverse of [`micros`].
pub(super) fn timestamp(at: Micros) -> Timestamp {
    let us = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(us).unwrap_or(Timestamp::MAX)
}
