//! Checking a folder: is the trail what was written?

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chain::{Hash, Tip};
use crate::folder::{self, Ended, HEAD, Head, Noted, Segment, next_line};
use crate::record::Lost;

/// A line of a trail: its number and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The number.
    pub seq: u64,
    /// The hash.
    pub hash: Hash,
}

/// What a whole trail holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Files.
    pub segments: u64,
    /// Lines.
    pub records: u64,
    /// The oldest line.
    pub first: Option<Place>,
    /// The newest line.
    pub last: Option<Place>,
    /// How often the end of the trail was not as it was left, as after a crash.
    pub cuts: u64,
    /// Records that the trail itself says are not in it.
    pub missing: Lost,
    /// Records that had been written and were gone when the trail was opened again.
    pub lost: u64,
    /// Older records that were removed as the settings ask.
    pub retired: u64,
    /// Bytes of an unfinished line at the end. It is being written, or the process ended over it; the
    /// next start cuts it off.
    pub unfinished_bytes: u64,
}

/// Where a trail is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// The line in it, the first being 1; 0 if it is about the file as a whole.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.file.display())?;
        if self.line > 0 {
            write!(out, ":{}", self.line)?;
        }
        write!(out, ": {}", self.reason)
    }
}

/// Why a trail is not in order.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// It is not what was written.
    #[error("the audit trail is broken: {0}")]
    Broken(Broken),
    /// It cannot be read.
    #[error("{path} cannot be read: {source}; give a folder of audit segments that you may read")]
    Unreadable {
        /// The folder or the file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Reads every line of a folder and checks it against the one before, the names of the files and the
/// note of the newest line. Takes a line of memory, however long the trail. A trail that is being
/// written can be verified, too.
///
/// # Errors
/// The first place that is not what was written, or what cannot be read.
pub fn verify(folder: &Path) -> Result<Summary, VerifyError> {
    let unreadable = |source| VerifyError::Unreadable { path: folder.to_owned(), source };
    // Before the segments, which only grow: so a writer at work is never behind its note.
    let noted = Head::read(folder).map_err(unreadable)?;
    let segments = folder::segments(folder).map_err(unreadable)?;
    let mut walk = Walk::new(folder, noted)?;
    for (index, segment) in segments.iter().enumerate() {
        walk.segment(segment, index + 1 == segments.len())?;
    }
    walk.finish()
}

/// A walk over the lines.
struct Walk<'a> {
    folder: &'a Path,
    /// None before the first line.
    tip: Option<Tip>,
    noted: Option<Tip>,
    noted_seen: bool,
    /// The newest line that was removed as the settings ask, by what the trail says.
    retired_through: u64,
    summary: Summary,
}

/// What a line says beside its place in the chain.
#[derive(Deserialize)]
struct Told {
    kind: String,
    #[serde(default)]
    missing: Lost,
    /// Of a cut.
    #[serde(default)]
    records: u64,
    /// Of what was retired.
    #[serde(default)]
    through: u64,
}

impl<'a> Walk<'a> {
    fn new(folder: &'a Path, noted: Noted) -> Result<Self, VerifyError> {
        let line = if let Noted::Line(tip) = noted { Some(tip) } else { None };
        let summary = Summary::default();
        let walk = Self { folder, tip: None, noted: line, noted_seen: false, retired_through: 0, summary };
        match noted {
            Noted::Nonsense => Err(walk.broken_head("it is not the note of a line")),
            Noted::Line(_) | Noted::Nothing => Ok(walk),
        }
    }

    fn segment(&mut self, segment: &Segment, newest: bool) -> Result<(), VerifyError> {
        let broken =
            |line, reason: String| VerifyError::Broken(Broken { file: segment.path.clone(), line, reason });
        let unreadable = |source| VerifyError::Unreadable { path: segment.path.clone(), source };
        let file = match File::open(&segment.path) {
            Ok(file) => file,
            // Removed as the settings ask, while we looked.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.tip.is_none() => return Ok(()),
            Err(error) => return Err(unreadable(error)),
        };
        if let Some(tip) = self.tip.filter(|tip| tip.seq + 1 != segment.first) {
            let reason =
                format!("it should begin with seq {}: segments were removed or renamed", tip.seq + 1);
            return Err(broken(0, reason));
        }
        self.summary.segments += 1;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut line = Vec::new();
        for number in 1.. {
            match next_line(&mut reader, &mut line).map_err(unreadable)? {
                Ended::Line => {
                    let first = (number == 1).then_some(segment.first);
                    self.line(&line, first).map_err(|reason| broken(number, reason))?;
                }
                Ended::Long => return Err(broken(number, "it is longer than any line can be".to_owned())),
                Ended::File if !line.is_empty() && !newest => {
                    return Err(broken(number, "it is unfinished, and not the last of the trail".to_owned()));
                }
                Ended::File if number == 1 && !newest => {
                    return Err(broken(0, "it is empty, and not the newest segment".to_owned()));
                }
                Ended::File => {
                    self.summary.unfinished_bytes = line.len() as u64;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Follows a line; `named` is its number by the name of the file, for the first in a file.
    fn line(&mut self, line: &[u8], named: Option<u64>) -> Result<(), String> {
        let before = match self.tip {
            Some(tip) => tip,
            // The oldest line that is left goes on from what it says.
            None => Tip::before(line).ok_or("it does not begin with seq and prev")?,
        };
        if named.is_some_and(|first| first != before.seq + 1) {
            return Err(format!("the name of the file says another seq than {}", before.seq + 1));
        }
        if before.seq == 0 && before.hash != Hash::default() {
            return Err("it is the first line of a trail and goes on from another".to_owned());
        }
        let mut tip = before;
        tip.follow(line)?;
        let told: Told =
            serde_json::from_slice(line).map_err(|error| format!("it is not a record: {error}"))?;
        self.check_note(before)?;
        self.check_note(tip)?;
        if self.tip.is_none() {
            self.summary.first = Some(Place { seq: tip.seq, hash: tip.hash });
        }
        self.summary.records += 1;
        self.summary.missing += told.missing;
        match told.kind.as_str() {
            "cut" => {
                self.summary.cuts += 1;
                self.summary.lost += told.records;
            }
            "retired" => self.retired_through = self.retired_through.max(told.through),
            _ => {}
        }
        self.tip = Some(tip);
        Ok(())
    }

    fn check_note(&mut self, tip: Tip) -> Result<(), String> {
        match self.noted {
            Some(noted) if noted.seq == tip.seq && noted.hash != tip.hash => {
                Err(format!("it is not the line that {HEAD} notes"))
            }
            Some(noted) => {
                self.noted_seen |= noted.seq == tip.seq;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Result<Summary, VerifyError> {
        let Some(tip) = self.tip else {
            return match self.noted {
                Some(noted) if noted != Tip::default() => {
                    Err(self.broken_head(format!("it notes line {}, and the trail is empty", noted.seq)))
                }
                _ => Ok(self.summary),
            };
        };
        match self.noted {
            None => return Err(self.broken_head("it is gone, so that nobody can tell where the trail ended")),
            Some(noted) if noted.seq > tip.seq => {
                let (last, noted) = (tip.seq, noted.seq);
                let reason =
                    format!("it notes line {noted}, and the trail ends with {last}: lines were cut off");
                return Err(self.broken_head(reason));
            }
            Some(noted) if !self.noted_seen => {
                return Err(self.broken_head(format!("it notes line {}, which is not there", noted.seq)));
            }
            Some(_) => {}
        }
        self.summary.last = Some(Place { seq: tip.seq, hash: tip.hash });
        self.summary.retired = tip.seq - self.summary.records;
        if self.summary.retired > self.retired_through {
            let reason = format!(
                "the trail begins with line {}, and does not say that those before were removed",
                self.summary.retired + 1
            );
            return Err(VerifyError::Broken(Broken { file: self.folder.to_owned(), line: 0, reason }));
        }
        Ok(self.summary)
    }

    fn broken_head(&self, reason: impl Into<String>) -> VerifyError {
        let file = self.folder.join(HEAD);
        VerifyError::Broken(Broken { file, line: 0, reason: reason.into() })
    }
}
