//! The history in a file of the data folder, so that a restart does not lose last night.
//!
//! ```text
//! "TIDEHIST" · version u32 · for the hour and the day: step numbers, durations · the node's steps · those of other rules
//! · rules u32, each with domain, name and steps · marks as JSON · SHA-256 of all before
//! ```
//! Numbers are little-endian; a text has its length before it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::history::{BUCKETS, History, Range, Track};
use super::marks::{Mark, Marks};

const MAGIC: &[u8; 8] = b"TIDEHIST";
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 32;

/// Returns a history as bytes.
pub(super) fn encode(history: &History, marks: &Marks) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 << 10);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    for steps in &history.steps {
        for number in &steps.numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        words(&mut out, steps.durations.as_flattened());
    }
    track(&mut out, &history.node);
    track(&mut out, &history.other);
    words(&mut out, &[history.rules.len() as u32]);
    for rule in &history.rules {
        text(&mut out, &rule.domain);
        text(&mut out, &rule.rule);
        track(&mut out, &rule.track);
    }
    text(&mut out, &serde_json::to_string(marks.all()).unwrap_or_default());
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    out
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn track(out: &mut Vec<u8>, track: &Track) {
    words(out, track.hour.as_flattened());
    words(out, track.day.as_flattened());
}

fn text(out: &mut Vec<u8>, text: &str) {
    words(out, &[text.len() as u32]);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what [`encode`] wrote; `None` if it is damaged, or of another version.
pub(super) fn decode(bytes: &[u8]) -> Option<(History, Marks)> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
    if Sha256::digest(content)[..] != *checksum {
        return None;
    }
    let mut reader = Reader(content);
    if reader.take(MAGIC.len())? != MAGIC || reader.word()? != VERSION {
        return None;
    }
    let mut history = History::default();
    for range in Range::ALL {
        let steps = &mut history.steps[range as usize];
        for number in &mut steps.numbers {
            *number = u64::from_le_bytes(reader.take(8)?.try_into().ok()?);
        }
        for durations in &mut steps.durations {
            *durations = reader.array::<BUCKETS>()?;
        }
    }
    reader.track(&mut history.node)?;
    reader.track(&mut history.other)?;
    for _ in 0..reader.word()? {
        let (domain, rule) = (reader.text()?, reader.text()?);
        let mut track = history.node.clone();
        reader.track(&mut track)?;
        history.restore(domain, rule, track);
    }
    let marks: Vec<Mark> = serde_json::from_str(reader.text()?).ok()?;
    reader.0.is_empty().then(|| (history, Marks::restored(marks)))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn array<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Some(words)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.word()? as usize;
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn track(&mut self, track: &mut Track) -> Option<()> {
        for step in track.hour.iter_mut().chain(&mut track.day) {
            *step = self.array()?;
        }
        Some(())
    }
}

/// Reads a file. If the file cannot be used, that is logged and the history starts empty.
pub(super) fn read(path: &Path) -> (History, Marks) {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Default::default(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the history cannot be read, and begins anew");
            return Default::default();
        }
    };
    decode(&bytes).unwrap_or_else(|| {
        tracing::warn!(path = %path.display(), "the history is damaged or of another version, and begins anew");
        Default::default()
    })
}

/// Writes a file beside its place and renames it, so that there is always a whole one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let not_followed = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(not_followed);
    options.open(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    })?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use tidegate::{Counts, Micros};

    use super::*;

    #[test]
    fn a_history_is_read_as_it_was_written_and_a_damaged_one_is_not() {
        let now = Micros(1_700_000_000_000_000);
        let (mut history, mut marks) = (History::default(), Marks::default());
        let places = history.begin(now);
        let counts = Counts { allowed: 3, denied: 2, ..Counts::default() };
        history.count_rule(places, "api", "user", counts);
        history.count_durations(places, [7; BUCKETS]);
        marks.add(now, "rules", "changed".to_owned());
        let bytes = encode(&history, &marks);
        let (read, read_marks) = decode(&bytes).expect("it is whole");
        assert_eq!(encode(&read, &read_marks), bytes);
        let keep = |_: &str, rule: &str| rule == "user";
        let series = read.decisions(Range::Day, now, Some(&keep));
        assert_eq!(series.values.last().unwrap().unwrap().denied, 2);
        for broken in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[broken] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {broken}");
            assert!(decode(&bytes[..broken]).is_none(), "cut at {broken}");
        }
    }
}
