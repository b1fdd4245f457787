//! The files of a trail's folder: segments, the note of the newest line, and the lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::chain::{Hash, MAX_LINE_BYTES, Tip};

/// The file that notes the newest line. Without it, truncation at the end could not be detected.
pub(crate) const HEAD: &str = "audit-head";

/// The file that is locked by the process that writes the trail.
pub(crate) const LOCK: &str = "audit-lock";

/// A file with lines of the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The number of the first line, which is part of the file name.
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
}

impl Segment {
    pub(crate) fn new(folder: &Path, first: u64) -> Self {
        Self { first, path: folder.join(format!("audit-{first:020}.jsonl")) }
    }

    fn named(path: PathBuf) -> Option<Self> {
        let digits = path.file_name()?.to_str()?.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
        let number = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let first = digits.parse().ok().filter(|_| number)?;
        Some(Self { first, path })
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Returns the segments of a folder, oldest first.
pub(crate) fn segments(folder: &Path) -> io::Result<Vec<Segment>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        all.extend(Segment::named(entry?.path()));
    }
    all.sort_by_key(|segment| segment.first);
    Ok(all)
}

/// Reads the next line into `line`, without its newline. With `Ended::File`, `line` contains the bytes after
/// the last newline.
pub(crate) fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Ended> {
    line.clear();
    from.take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', line)?;
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        Ok(Ended::Line)
    } else if line.len() > MAX_LINE_BYTES {
        Ok(Ended::Long)
    } else {
        Ok(Ended::File)
    }
}

/// How reading a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// At a newline.
    Line,
    /// At the end of the file.
    File,
    /// At the maximum length of a line, without a newline.
    Long,
}

/// The contents of the note of the newest line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadNote {
    /// There is no note.
    Missing,
    /// The number and hash of the newest line.
    Line(Tip),
    /// The file is not a valid note.
    Invalid,
}

/// The open note of the newest line. The file has a fixed length, so that writing it again works on a full
/// disk.
pub(crate) struct Head(File);

impl Head {
    /// Opens the note in this folder. If it is missing or invalid, writes `tip` to it.
    pub(crate) fn open_or_create(folder: &Path, tip: Tip) -> io::Result<Self> {
        let note = Self::read(folder)?;
        let file = private().create(true).truncate(false).open(folder.join(HEAD))?;
        let mut head = Self(file);
        if !matches!(note, HeadNote::Line(_)) {
            head.0.set_len(0)?;
            head.write(tip)?;
            head.0.sync_all()?;
        }
        Ok(head)
    }

    pub(crate) fn write(&mut self, tip: Tip) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(format!("{:020} {}\n", tip.seq, tip.hash).as_bytes())
    }

    /// Reads the note in this folder.
    pub(crate) fn read(folder: &Path) -> io::Result<HeadNote> {
        let file = match File::open(folder.join(HEAD)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HeadNote::Missing),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(1024).read_to_end(&mut text)?;
        Ok(Self::parse(&text).map_or(HeadNote::Invalid, HeadNote::Line))
    }

    fn parse(text: &[u8]) -> Option<Tip> {
        let (seq, rest) = text.split_at_checked(20)?;
        let seq = str::from_utf8(seq).ok().filter(|seq| seq.bytes().all(|byte| byte.is_ascii_digit()))?;
        let hash = Hash::parse(rest.strip_prefix(b" ")?.strip_suffix(b"\n")?)?;
        Some(Tip { seq: seq.parse().ok()?, hash })
    }
}

/// Returns options for opening a file that only its owner may read, because a trail contains names of people.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Symbolic links are not followed, so that no other file is overwritten.
        let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        options.mode(0o600).custom_flags(no_follow);
    }
    options
}

/// Creates the folder if it is missing. Only its owner may access it.
pub(crate) fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Flushes the folder, so that the names of new files survive a power failure.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
