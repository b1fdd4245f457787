//! A sink that writes files: a folder of segments, of which the oldest are removed according to the settings.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use tidegate_core::Micros;

use crate::chain::Tip;
use crate::folder::{self, Head, HeadNote, LOCK, Segment, private};
use crate::record::{Cut, Retired};
use crate::recovery::{End, began, micros_of};
use crate::settings::Settings;
use crate::sink::{Batch, Sink};

/// Reasons why an audit folder cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process writes to the folder.
    #[error("the audit folder {path} is in use by another process; stop that one, or choose another folder")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be created, read or written.
    #[error(
        "the audit folder {path} cannot be used: {source}; make it readable and writable, or choose another"
    )]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A segment in the folder, with its size and times.
#[derive(Debug)]
struct SegmentInfo {
    segment: Segment,
    bytes: u64,
    /// When the first line was recorded.
    began: Micros,
    /// When the last line was written, by the clock of the trail or the time of the file. The time in a
    /// record is not used, because a record may contain any time.
    last: Micros,
}

/// The newest segment, open for writing.
#[derive(Debug)]
struct Current {
    file: File,
    /// The bytes of lines that are certainly written. Anything beyond them does not count.
    bytes: u64,
    /// Whether the file may be longer than `bytes`, because a write failed.
    torn: bool,
}

/// Appends lines to segments in a folder.
pub struct FileSink {
    folder: PathBuf,
    /// All segments, oldest first. The last is the current one, if that is open.
    kept: VecDeque<SegmentInfo>,
    current: Option<Current>,
    head: Option<Head>,
    tip: Tip,
    cut: Option<Cut>,
    segment_bytes: u64,
    segment_age_us: u64,
    total_bytes: u64,
    total_age_us: u64,
    /// Holds the lock of the folder. The system releases it when the process ends in any way.
    _lock: File,
}

impl FileSink {
    /// Creates the folder if it is missing, locks it, and finds the end of its chain. An unfinished last
    /// line, as a crash leaves it, is removed.
    ///
    /// # Errors
    /// Returns an error if another process writes to the folder, or it cannot be used.
    pub fn open(folder: &Path, settings: &Settings) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Unusable { path: folder.to_owned(), source };
        folder::create(folder).map_err(unusable)?;
        let lock = private().create(true).truncate(false).open(folder.join(LOCK)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let micros = |age: Duration| u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let mut sink = Self {
            folder: folder.to_owned(),
            kept: VecDeque::new(),
            current: None,
            head: None,
            tip: Tip::default(),
            cut: None,
            segment_bytes: settings.segment_bytes,
            segment_age_us: micros(settings.segment_age),
            total_bytes: settings.total_bytes,
            total_age_us: micros(settings.total_age),
            _lock: lock,
        };
        sink.recover().map_err(unusable)?;
        Ok(sink)
    }

    /// Finds the segments and the end of the chain.
    fn recover(&mut self) -> io::Result<()> {
        for segment in folder::segments(&self.folder)? {
            let about = fs::metadata(&segment.path)?;
            let last = about.modified().map_or(Micros(0), micros_of);
            let began = began(&segment)?.unwrap_or(last);
            self.kept.push_back(SegmentInfo { segment, bytes: about.len(), began, last });
        }
        let note = Head::read(&self.folder)?;
        let mut cut = Cut::default();
        let mut found = self.find_end(&mut cut)?;
        match note {
            HeadNote::Line(noted) if noted.seq > self.tip.seq => {
                cut.records = noted.seq - self.tip.seq;
                found.push("records that had been written are missing");
            }
            HeadNote::Invalid => found.push("the note of the newest line was invalid"),
            HeadNote::Missing if self.tip.seq > 0 => found.push("the note of the newest line was missing"),
            HeadNote::Line(_) | HeadNote::Missing => {}
        }
        cut.reason = found.join("; ");
        self.cut = (!found.is_empty()).then_some(cut);
        Ok(())
    }

    /// Finds the end of the chain, and sets the tip and the current segment. Returns the problems found.
    fn find_end(&mut self, cut: &mut Cut) -> io::Result<Vec<&'static str>> {
        let mut found = Vec::new();
        while let Some(last) = self.kept.back_mut() {
            let end = End::find(&last.segment)?;
            let path = &last.segment.path;
            if end.bytes < last.bytes {
                cut.file = last.segment.name();
            }
            if end.foreign {
                // A crash does not leave this, so nothing of it is removed.
                found.push("the newest segment has lines that are not part of the chain");
            } else if end.bytes < last.bytes {
                cut.bytes += last.bytes - end.bytes;
                found.push("the last line was unfinished");
            }
            match (end.foreign, end.bytes > 0) {
                // The segment stays for `verify` to report, and the trail continues in another one.
                (true, true) => {}
                // Renamed, because the next segment needs the name.
                (true, false) => fs::rename(path, path.with_extension("foreign"))?,
                // The segment was created, but no line was written.
                (false, false) => fs::remove_file(path)?,
                (false, true) => {
                    let file = private().open(path)?;
                    if end.bytes < last.bytes {
                        file.set_len(end.bytes)?;
                        file.sync_all()?;
                        last.bytes = end.bytes;
                    }
                    self.current = Some(Current { file, bytes: end.bytes, torn: false });
                }
            }
            if end.bytes > 0 {
                self.tip = end.tip;
                break;
            }
            self.kept.pop_back();
        }
        Ok(found)
    }

    /// Opens the segment for the batch, and removes what a failed attempt has left there.
    fn prepare(&mut self, batch: &Batch) -> io::Result<()> {
        if self.head.is_none() {
            self.head = Some(Head::open_or_create(&self.folder, self.tip)?);
        }
        if self.current.as_ref().is_some_and(|current| self.is_full(current, batch)) {
            self.current = None;
        }
        match &mut self.current {
            Some(current) if current.torn => {
                current.file.set_len(current.bytes)?;
                current.torn = false;
                Ok(())
            }
            Some(_) => Ok(()),
            None => self.begin_segment(batch),
        }
    }

    fn is_full(&self, current: &Current, batch: &Batch) -> bool {
        let Some(kept) = self.kept.back().filter(|_| current.bytes > 0) else { return false };
        let grown = current.bytes.saturating_add(batch.lines.len() as u64);
        grown > self.segment_bytes || batch.now.since(kept.began) > self.segment_age_us
    }

    fn begin_segment(&mut self, batch: &Batch) -> io::Result<()> {
        let segment = Segment::new(&self.folder, batch.first);
        let file = private().create(true).truncate(true).open(&segment.path)?;
        // The name must survive a power failure, or else all lines in the file would be lost.
        folder::sync(&self.folder)?;
        self.kept.retain(|kept| kept.segment != segment);
        self.kept.push_back(SegmentInfo { segment, bytes: 0, began: batch.now, last: batch.now });
        self.current = Some(Current { file, bytes: 0, torn: false });
        Ok(())
    }
}

impl Current {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.torn = true;
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.file.write_all(lines)?;
        self.file.sync_data()
    }
}

impl Sink for FileSink {
    fn tip(&self) -> Tip {
        self.tip
    }

    fn take_cut(&mut self) -> Option<Cut> {
        self.cut.take()
    }

    fn append(&mut self, batch: &Batch) -> io::Result<()> {
        self.prepare(batch)?;
        let (Some(current), Some(head)) = (&mut self.current, &mut self.head) else {
            return Err(io::Error::other("no segment is open"));
        };
        current.write(&batch.lines)?;
        // After the lines are flushed, so that the note never names a line that a power failure can lose.
        head.write(batch.tip)?;
        current.torn = false;
        current.bytes += batch.lines.len() as u64;
        self.tip = batch.tip;
        if let Some(kept) = self.kept.back_mut() {
            if kept.bytes == 0 {
                kept.began = batch.now;
            }
            (kept.bytes, kept.last) = (current.bytes, batch.now);
        }
        Ok(())
    }

    fn due(&self, now: Micros) -> Option<Retired> {
        let mut total: u64 = self.kept.iter().map(|kept| kept.bytes).sum();
        let mut retired = Retired::default();
        for (kept, next) in self.kept.iter().zip(self.kept.iter().skip(1)) {
            if total <= self.total_bytes && now.since(kept.last) <= self.total_age_us {
                break;
            }
            total -= kept.bytes;
            retired.segments += 1;
            retired.through = next.segment.first - 1;
        }
        (retired.segments > 0).then_some(retired)
    }

    fn retire(&mut self, retired: &Retired) {
        while self.kept.len() > 1 && self.kept[1].segment.first <= retired.through + 1 {
            if let Err(error) = fs::remove_file(&self.kept[0].segment.path)
                && error.kind() != io::ErrorKind::NotFound
            {
                let file = self.kept[0].segment.path.display();
                tracing::warn!(%file, %error, "an old audit segment cannot be removed");
                return;
            }
            self.kept.pop_front();
        }
    }
}
