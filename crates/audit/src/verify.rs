//! Verifies that a trail is exactly what was written.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chain::{Hash, Tip};
use crate::folder::{self, Ended, HEAD, Head, HeadNote, Segment, next_line};
use crate::record::Lost;

/// The number and the hash of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LineId {
    /// The number of the line.
    pub seq: u64,
    /// The hash of the line.
    pub hash: Hash,
}

/// Statistics of a valid trail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The number of files.
    pub segments: u64,
    /// The number of lines.
    pub records: u64,
    /// The oldest line.
    pub first: Option<LineId>,
    /// The newest line.
    pub last: Option<LineId>,
    /// How often the end of the trail was repaired when it was opened, as after a crash.
    pub cuts: u64,
    /// Records that are missing according to the trail itself, because the buffer was full.
    pub missing: Lost,
    /// Records that had been written but were missing when the trail was opened again.
    pub lost: u64,
    /// Older records that were removed according to the settings.
    pub retired: u64,
    /// Bytes of an unfinished line at the end. It is being written, or the process ended while writing it;
    /// then the next start removes it.
    pub unfinished_bytes: u64,
}

/// The first problem of a trail that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// The line in the file, counted from 1; 0 if the problem concerns the file as a whole.
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

/// Reasons why the verification of a trail fails.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The trail is not what was written.
    #[error("the audit trail is broken: {0}")]
    Broken(Broken),
    /// The trail cannot be read.
    #[error("{path} cannot be read: {source}; give a folder of audit segments that you may read")]
    Unreadable {
        /// The folder or the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Reads every line of a folder and checks it against the line before, the names of the files and the note of
/// the newest line. Needs memory for a single line, however long the trail is. A trail can be verified while
/// it is being written.
///
/// # Errors
/// Returns the first problem found, or the file that cannot be read.
pub fn verify(folder: &Path) -> Result<Summary, VerifyError> {
    let unreadable = |source| VerifyError::Unreadable { path: folder.to_owned(), source };
    // Read before the segments, which only grow: so the note never names a line that was written later.
    let note = Head::read(folder).map_err(unreadable)?;
    let segments = folder::segments(folder).map_err(unreadable)?;
    let mut verifier = Verifier::new(folder, note)?;
    for (index, segment) in segments.iter().enumerate() {
        verifier.segment(segment, index + 1 == segments.len())?;
    }
    verifier.finish()
}

/// The state of a verification.
struct Verifier<'a> {
    folder: &'a Path,
    /// The line checked last; `None` before the first line.
    tip: Option<Tip>,
    /// The newest line according to the note.
    noted: Option<Tip>,
    noted_seen: bool,
    /// The newest line that was retired, according to the trail.
    retired_through: u64,
    summary: Summary,
}

/// The fields of a line that matter for the verification.
#[derive(Deserialize)]
struct LineFields {
    kind: String,
    #[serde(default)]
    missing: Lost,
    /// Only in `cut` lines: the number of lost records.
    #[serde(default)]
    records: u64,
    /// Only in `retired` lines: the number of the newest record removed.
    #[serde(default)]
    through: u64,
}

impl<'a> Verifier<'a> {
    fn new(folder: &'a Path, note: HeadNote) -> Result<Self, VerifyError> {
        let noted = if let HeadNote::Line(tip) = note { Some(tip) } else { None };
        let summary = Summary::default();
        let verifier = Self { folder, tip: None, noted, noted_seen: false, retired_through: 0, summary };
        match note {
            HeadNote::Invalid => Err(verifier.broken_head("it is not a valid note of a line")),
            HeadNote::Line(_) | HeadNote::Missing => Ok(verifier),
        }
    }

    fn segment(&mut self, segment: &Segment, newest: bool) -> Result<(), VerifyError> {
        let broken =
            |line, reason: String| VerifyError::Broken(Broken { file: segment.path.clone(), line, reason });
        let unreadable = |source| VerifyError::Unreadable { path: segment.path.clone(), source };
        let file = match File::open(&segment.path) {
            Ok(file) => file,
            // Retired in the meantime.
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
                Ended::Long => return Err(broken(number, "it is longer than the longest line".to_owned())),
                Ended::File if !line.is_empty() && !newest => {
                    return Err(broken(number, "it is unfinished, but not the last of the trail".to_owned()));
                }
                Ended::File if number == 1 && !newest => {
                    return Err(broken(0, "it is empty, but not the newest segment".to_owned()));
                }
                Ended::File => {
                    self.summary.unfinished_bytes = line.len() as u64;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Checks a line. For the first line of a file, `named` is its number according to the file name.
    fn line(&mut self, line: &[u8], named: Option<u64>) -> Result<(), String> {
        let before = match self.tip {
            Some(tip) => tip,
            // The oldest line that is left cannot be checked against the line before it.
            None => Tip::before(line).ok_or("it does not begin with seq and prev")?,
        };
        if named.is_some_and(|first| first != before.seq + 1) {
            return Err(format!("the name of the file has another seq than {}", before.seq + 1));
        }
        if before.seq == 0 && before.hash != Hash::default() {
            return Err("it is the first line of a trail, but continues from another".to_owned());
        }
        let mut tip = before;
        tip.follow(line)?;
        let fields: LineFields =
            serde_json::from_slice(line).map_err(|error| format!("it is not a record: {error}"))?;
        self.check_note(before)?;
        self.check_note(tip)?;
        if self.tip.is_none() {
            self.summary.first = Some(LineId { seq: tip.seq, hash: tip.hash });
        }
        self.summary.records += 1;
        self.summary.missing += fields.missing;
        match fields.kind.as_str() {
            "cut" => {
                self.summary.cuts += 1;
                self.summary.lost += fields.records;
            }
            "retired" => self.retired_through = self.retired_through.max(fields.through),
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
                    Err(self.broken_head(format!("it notes line {}, but the trail is empty", noted.seq)))
                }
                _ => Ok(self.summary),
            };
        };
        match self.noted {
            None => return Err(self.broken_head("it is missing, so the end of the trail cannot be checked")),
            Some(noted) if noted.seq > tip.seq => {
                let (last, noted) = (tip.seq, noted.seq);
                let reason =
                    format!("it notes line {noted}, but the trail ends with {last}: lines were cut off");
                return Err(self.broken_head(reason));
            }
            Some(noted) if !self.noted_seen => {
                return Err(self.broken_head(format!("it notes line {}, which is missing", noted.seq)));
            }
            Some(_) => {}
        }
        self.summary.last = Some(LineId { seq: tip.seq, hash: tip.hash });
        self.summary.retired = tip.seq - self.summary.records;
        if self.summary.retired > self.retired_through {
            let reason = format!(
                "the trail begins with line {}, but has no record that the lines before were removed",
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
