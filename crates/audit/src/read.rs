//! Showing a folder, newest first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tidegate_core::Micros;

use crate::chain::MAX_LINE_BYTES;
use crate::folder;
use crate::record::{Entry, Event};

/// A page reads so much of a trail at most; a filter that nothing matches answers in bounded time.
const MAX_READ_BYTES: u64 = 64 << 20;

const BLOCK_BYTES: u64 = 64 << 10;

/// Which lines to show. What is not given matches all; a text that ends with `*` matches what begins
/// like it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// `change`, `denial`, `cut` or `retired`.
    pub kind: Option<String>,
    /// Who; matches changes only.
    pub actor: Option<String>,
    /// What was done; matches changes only.
    pub action: Option<String>,
    /// To what: the object of a change, or the rule of a denial.
    pub object: Option<String>,
    /// Not before this time.
    pub from: Option<Micros>,
    /// Before this time.
    pub to: Option<Micros>,
    /// Only lines with a smaller number: where the page before ended.
    pub before: Option<u64>,
}

/// Some lines, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The lines.
    pub entries: Vec<Entry>,
    /// [`Filter::before`] of the next page, if there may be one. It may be there even if this page is
    /// not full: then there was too much to read at once.
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
            && fits(self.actor.as_ref(), actor)
            && fits(self.action.as_ref(), action)
            && fits(self.object.as_ref(), object)
            && self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at < to)
            && self.before.is_none_or(|before| entry.seq < before)
    }
}

fn fits(wanted: Option<&String>, text: Option<&String>) -> bool {
    let Some(wanted) = wanted else { return true };
    text.is_some_and(|text| match wanted.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => text == wanted,
    })
}

/// The newest lines of a folder that the filter admits, at most `limit`. Lines that cannot be read are
/// left out: finding those is for [`verify`](crate::verify()).
///
/// # Errors
/// If the folder or a file in it cannot be read.
pub fn read(folder: &Path, filter: &Filter, limit: usize) -> io::Result<Page> {
    let mut page = Page::default();
    let mut left = MAX_READ_BYTES;
    for segment in folder::segments(folder)?.iter().rev() {
        if filter.before.is_some_and(|before| segment.first >= before) {
            continue;
        }
        let file = match File::open(&segment.path) {
            Ok(file) => file,
            // Removed as the settings ask, while we looked; so are those before it.
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

/// The lines of a file from the last to the first, in blocks. What follows the last newline is no line
/// yet.
struct Backward {
    file: File,
    /// Bytes before this are still to be read.
    at: u64,
    /// What was read and not given out: a piece of the file that begins at `at`.
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
        // `held` ends with the wanted line, without its newline.
        match self.find_newline()? {
            Some(newline) => {
                let line = self.held.split_off(newline + 1);
                self.held.truncate(newline);
                Ok(Some(line))
            }
            None => Ok(Some(std::mem::take(&mut self.held))).map(|line| line.filter(|line| !line.is_empty())),
        }
    }

    /// The last newline in what is held, after reading as much as that takes.
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
