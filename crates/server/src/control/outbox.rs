//! Changes that are not in the audit files yet, kept in the data folder so that they survive the process.
//!
//! A change is kept before it is committed to the catalog, and removed once the audit files have it. What a process
//! leaves behind is looked into by the next one: changes that were certainly made are recorded, for all others the
//! catalog is asked first.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tidegate_audit::Change;
use tidegate_catalog::AuditEntry;

use super::health::CatalogHealth;
use super::record::{micros, timestamp};

/// How many changes are kept at most; further ones are only in memory.
const MAX_KEPT: u64 = 1_000;

/// The folder of the changes that are not in the audit files yet. Clones share their state.
#[derive(Clone)]
pub(super) struct Outbox(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    node: String,
    health: CatalogHealth,
    /// The number of the next file, so that files sort by age.
    next: AtomicU64,
}

/// A change that is not in the audit files yet.
pub(super) struct Kept {
    unrecorded: Unrecorded,
    /// `None` if it could not be written: then the change is only in memory.
    file: Option<PathBuf>,
    outbox: Outbox,
}

/// The contents of a file.
#[derive(Clone, Serialize, Deserialize)]
struct Unrecorded {
    /// Whether the change was certainly made. If not, the catalog has to be asked.
    made: bool,
    /// The entry of the catalog, without what is in `change`; `None` if the change is not in the catalog.
    #[serde(default)]
    entry: Option<EntryId>,
    change: Change,
}

#[derive(Clone, Serialize, Deserialize)]
struct EntryId {
    id: u64,
    object_kind: String,
}

impl Outbox {
    /// Opens the folder, and returns the changes that an earlier process has left there, the oldest first.
    pub(super) fn open(folder: PathBuf, node: String, health: CatalogHealth) -> (Self, Vec<Kept>) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        let outbox = Self(Arc::new(Inner { folder, node, health, next: AtomicU64::new(0) }));
        match made.and_then(|()| outbox.left_behind()) {
            Ok(left) => (outbox, left),
            Err(error) => {
                outbox.warn(&error);
                (outbox, Vec::new())
            }
        }
    }

    fn left_behind(&self) -> io::Result<Vec<Kept>> {
        let mut files: Vec<(u64, PathBuf)> = Vec::new();
        for file in fs::read_dir(&self.0.folder)? {
            let path = file?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            match number.filter(|_| path.extension().is_some_and(|end| end == "json")) {
                Some(number) => files.push((number, path)),
                // A file that was not finished: its change was not committed.
                None => fs::remove_file(path)?,
            }
        }
        files.sort_unstable();
        self.0.next.store(files.last().map_or(0, |(number, _)| number + 1), Ordering::Relaxed);
        Ok(files.into_iter().filter_map(|(_, path)| self.read(path)).collect())
    }

    fn read(&self, path: PathBuf) -> Option<Kept> {
        let parsed = fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        match parsed {
            Ok(unrecorded) => {
                self.0.health.add_unrecorded();
                Some(Kept { unrecorded, file: Some(path), outbox: self.clone() })
            }
            Err(error) => {
                tracing::error!(file = %path.display(), %error, "a change that is not in the audit files cannot be read");
                self.0.health.lose_record();
                None
            }
        }
    }

    /// Keeps a change that is about to be committed to the catalog.
    pub(super) async fn keep_entry(&self, entry: AuditEntry) -> Kept {
        let id = EntryId { id: entry.id, object_kind: entry.object_kind };
        let change = Change {
            at: micros(entry.at),
            actor: entry.actor,
            action: entry.action,
            object: entry.object,
            before: entry.before,
            after: entry.after,
            request_id: entry.request_id,
            node: self.0.node.clone(),
        };
        self.keep(Unrecorded { made: false, entry: Some(id), change }).await
    }

    /// Keeps a change of this node alone, which was made.
    pub(super) async fn keep_local(&self, change: Change) -> Kept {
        self.keep(Unrecorded { made: true, entry: None, change }).await
    }

    async fn keep(&self, unrecorded: Unrecorded) -> Kept {
        let kept = self.0.health.add_unrecorded();
        let mut file = None;
        if kept <= MAX_KEPT {
            let number = self.0.next.fetch_add(1, Ordering::Relaxed);
            let path = self.0.folder.join(format!("{number:020}.json"));
            match write(path.clone(), unrecorded.clone()).await {
                Ok(()) => file = Some(path),
                Err(error) => self.warn(&error),
            }
        }
        Kept { unrecorded, file, outbox: self.clone() }
    }

    fn warn(&self, error: &io::Error) {
        tracing::warn!(
            folder = %self.0.folder.display(),
            %error,
            "changes cannot be kept until they are in the audit files: if this process dies before, they are missing there"
        );
    }
}

impl Kept {
    pub(super) fn change(&self) -> &Change {
        &self.unrecorded.change
    }

    /// Returns whether the change was certainly made.
    pub(super) fn is_made(&self) -> bool {
        self.unrecorded.made
    }

    /// Returns whether this is the change of an entry of the catalog.
    pub(super) fn is(&self, entry: &AuditEntry) -> bool {
        self.unrecorded.entry.as_ref().is_some_and(|known| known.id == entry.id)
    }

    /// Returns the entry that the catalog has if the change was made; `None` for a change of this node alone.
    pub(super) fn entry(&self) -> Option<AuditEntry> {
        let id = self.unrecorded.entry.as_ref()?;
        let change = &self.unrecorded.change;
        Some(AuditEntry {
            id: id.id,
            at: timestamp(change.at),
            actor: change.actor.clone(),
            action: change.action.clone(),
            object_kind: id.object_kind.clone(),
            object: change.object.clone(),
            before: change.before.clone(),
            after: change.after.clone(),
            request_id: change.request_id.clone(),
        })
    }

    /// Records that the change was made, before the caller is notified.
    pub(super) async fn set_made(&mut self) {
        self.unrecorded.made = true;
        if let Some(file) = &self.file
            && let Err(error) = write(file.clone(), self.unrecorded.clone()).await
        {
            self.outbox.warn(&error);
        }
    }

    /// Forgets the change: it is in the audit files, or was not made.
    pub(super) async fn remove(self) {
        if let Some(file) = self.file {
            // A file that stays is found to be recorded already at the next start.
            let _ = tokio::task::spawn_blocking(move || fs::remove_file(file)).await;
        }
        self.outbox.0.health.remove_unrecorded();
    }
}

/// Writes a file so that it is there as a whole or not at all, also after a power failure.
async fn write(path: PathBuf, contents: Unrecorded) -> io::Result<()> {
    tokio::task::spawn_blocking(move || write_now(&path, &contents)).await.map_err(io::Error::other)?
}

fn write_now(path: &Path, contents: &Unrecorded) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(contents)?)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(id: u64) -> AuditEntry {
        AuditEntry {
            id,
            at: "2026-11-18T08:00:00.000123Z".parse().expect("a time"),
            actor: "ann".to_owned(),
            action: "put_tenant".to_owned(),
            object_kind: "tenant".to_owned(),
            object: "acme".to_owned(),
            before: None,
            after: Some(json!({ "tier": "pro", "overrides": [] })),
            request_id: "r-1".to_owned(),
        }
    }

    fn open(folder: &Path) -> (Outbox, Vec<Kept>, CatalogHealth) {
        let health = CatalogHealth::default();
        let (outbox, left) = Outbox::open(folder.join("outbox"), "node".to_owned(), health.clone());
        (outbox, left, health)
    }

    #[tokio::test]
    async fn what_a_process_kept_the_next_one_finds_in_order_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (outbox, left, health) = open(folder.path());
        assert!(left.is_empty());
        let (one, mut two) = (outbox.keep_entry(entry(7)).await, outbox.keep_entry(entry(8)).await);
        two.set_made().await;
        assert_eq!(health.unrecorded(), 2);
        drop((one, two, outbox));
        // A file that was not finished is of a change that was not committed.
        fs::write(folder.path().join("outbox/00000000000000000009.new"), "{").expect("a file");
        let (outbox, left, health) = open(folder.path());
        assert_eq!(health.unrecorded(), 2);
        let found: Vec<_> = left.iter().map(|kept| (kept.entry(), kept.is_made())).collect();
        assert_eq!(found, [(Some(entry(7)), false), (Some(entry(8)), true)]);
        assert!(left[1].is(&entry(8)) && !left[1].is(&entry(7)));
        outbox.keep_local(left[0].change().clone()).await.remove().await;
        for kept in left {
            kept.remove().await;
        }
        assert_eq!((health.unrecorded(), health.lost_records()), (0, 0));
        assert!(open(folder.path()).1.is_empty());
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_counted_and_what_cannot_be_written_is_only_in_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(open(folder.path()));
        fs::write(folder.path().join("outbox/00000000000000000003.json"), "{}").expect("a file");
        let (outbox, left, health) = open(folder.path());
        assert_eq!((left.len(), health.lost_records()), (0, 1));
        fs::remove_dir_all(folder.path().join("outbox")).expect("it is there");
        let kept = outbox.keep_entry(entry(1)).await;
        assert_eq!((kept.file.is_some(), health.unrecorded()), (false, 1));
        kept.remove().await;
        assert_eq!(health.unrecorded(), 0);
    }
}
