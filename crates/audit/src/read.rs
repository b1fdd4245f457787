//! Reads the lines of a folder, newest first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tidegate_core::Micros;

use crate::chain::MAX_LINE_BYTES;
use crate::folder;
use crate::record::{Entry, Event};

/// The most bytes that are read for one page, so that a filter without matches takes bounded time.
const MAX_READ_BYTES: u64 = 64 << 20;

const BLOCK_BYTES: u64 = 64 << 10;

/// Which lines to return. A field that is `None` matches all lines. A text that ends with `*` matches all
/// texts with that prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// `change`, `denial`, `cut` or `retired`.
    pub kind: Option<String>,
    /// The actor; matches changes only.
    pub actor: Option<String>,
    /// The action; matches changes only.
    pub action: Option<String>,
    /// The object of a change, or the rule of a denial.
    pub object: Option<String>,
    /// Only lines at this time or later.
    pub from: Option<Micros>,
    /// Only lines before this time.
    pub to: Option<Micros>,
    /// Only lines with a smaller number: the [`next`](Page::next) of the previous page.
    pub before: Option<u64>,
}

/// A page of lines, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The lines.
    pub entries: Vec<Entry>,
    /// The [`Filter::before`] of the next page, if there may be one. It may be present even if this page is
    /// not full: then there was too much to read for one page.
    pub next: Option<u64>,
}

impl Filter {
    fn admits(&self, entry: &Entry) -> bool {
        let (kind, actor, action, object) = match &entry.event {
            Event::Change(change) => {
                ("change", Some(&change.actor), Some(&change.action), Some(&change.object))
            }
            Event::Denial(denial) => ("denial", None, None, Some(&denial.rule)),
            Event::Cut(_) => ("cut", None, None, None),
            Event::Retired(_) => ("retired", None, None, None),
        };
        let at = entry.event.at();
        self.kind.as_ref().is_none_or(|wanted| wanted == kind)
            && matches(self.actor.as_ref(), actor)
            && matches(self.action.as_ref(), action)
            && matches(self.object.as_ref(), object)
            && self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at < to)
            && self.before.is_none_or(|before| entry.seq < before)
    }
}

/// Returns whether `text` matches `pattern`, which may end with `*`. `None` matches everything.
fn matches(pattern: Option<&String>, text: Option<&String>) -> bool {
    let Some(pattern) = pattern else { return true };
    text.is_some_and(|text| match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == pattern,
    })
}

/// Returns the newest lines of a folder that match the filter, at most `limit`. Invalid lines are skipped;
/// use [`verify`](crate::verify()) to find them.
///
/// # Errors
/// Returns an error if the folder or a file in it cannot be read.
pub fn read(folder: &Path, filter: &Filter, limit: usize) -> io::Result<Page> {
    let mut page = Page::default();
    let mut left = MAX_READ_BYTES;
    for segment in folder::segments(folder)?.iter().rev() {
        if filter.before.is_some_and(|before| segment.first >= before) {
            continue;
        }
        let file = match File::open(&segment.path) {
            Ok(file) => file,
            // Retired in the meantime, and so are those before it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        let mut lines = Backward::new(file)?;
        while let Some(line) = lines.next_line()? {
            left = left.saturating_sub(line.len() as u64 + 1);
            let Ok(entry) = serde_json::from_slice::<Entry>(&line) else { continue };
            let seq = entry.seq;
            if filter.admits(&entry) {
                page.entries.push(entry);
            }
            if page.entries.len() >= limit || left == 0 {
                page.next = (seq > 1).then_some(seq);
                return Ok(page);
            }
        }
    }
    Ok(page)
}

/// Reads the lines of a file from the last to the first, in blocks. Bytes after the last newline are an
/// unfinished line, and are skipped.
struct Backward {
    file: File,
    /// The offset up to which the file is still to be read.
    at: u64,
    /// Bytes that were read but not returned yet. They begin at the offset `at`.
    held: Vec<u8>,
    started: bool,
}

impl Backward {
    fn new(file: File) -> io::Result<Self> {
        let at = file.metadata()?.len();
        Ok(Self { file, at, held: Vec::new(), started: false })
    }

    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.started {
            self.started = true;
            match self.find_newline()? {
                Some(newline) => self.held.truncate(newline),
                None => return Ok(None),
            }
        } else if self.at == 0 && self.held.is_empty() {
            return Ok(None);
        }
        // `held` ends with the line to return, without its newline.
        match self.find_newline()? {
            Some(newline) => {
                let line = self.held.split_off(newline + 1);
                self.held.truncate(newline);
                Ok(Some(line))
            }
            None => Ok(Some(std::mem::take(&mut self.held))).map(|line| line.filter(|line| !line.is_empty())),
        }
    }

    /// Returns the index of the last newline in `held`, reading more of the file as needed.
    fn find_newline(&mut self) -> io::Result<Option<usize>> {
        let mut searched = 0;
        loop {
            let unsearched = self.held.len() - searched;
            if let Some(newline) = self.held[..unsearched].iter().rposition(|byte| *byte == b'\n') {
                return Ok(Some(newline));
            }
            searched = self.held.len();
            if self.at == 0 || self.held.len() > MAX_LINE_BYTES {
                self.at = 0;
                return Ok(None);
            }
            let size = self.at.min(BLOCK_BYTES);
            self.at -= size;
            let mut block = vec![0; size as usize];
            self.file.seek(SeekFrom::Start(self.at))?;
            self.file.read_exact(&mut block)?;
            block.append(&mut self.held);
            self.held = block;
        }
    }
}
