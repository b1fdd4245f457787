//! Reads a segment when a trail is opened again.

use std::fs::File;
use std::io::{self, BufReader};
use std::time::SystemTime;

use tidegate_core::Micros;

use crate::chain::Tip;
use crate::folder::{Ended, Segment, next_line};
use crate::record::Entry;

/// Returns when the first line of a segment was recorded, if that line is valid.
pub(crate) fn began(segment: &Segment) -> io::Result<Option<Micros>> {
    let mut line = Vec::new();
    next_line(&mut BufReader::new(File::open(&segment.path)?), &mut line)?;
    Ok(serde_json::from_slice(&line).ok().map(|entry: Entry| entry.event.at()))
}

/// Converts a time of the file system.
pub(crate) fn micros_of(time: SystemTime) -> Micros {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Where the chain ends in the newest segment.
pub(crate) struct End {
    pub(crate) tip: Tip,
    /// The bytes up to the end of the last valid line.
    pub(crate) bytes: u64,
    /// Whether complete lines follow that are not part of the chain.
    pub(crate) foreign: bool,
}

impl End {
    pub(crate) fn find(segment: &Segment) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(1 << 16, File::open(&segment.path)?);
        let mut line = Vec::new();
        let mut end = Self { tip: Tip::default(), bytes: 0, foreign: false };
        end.tip.seq = segment.first.saturating_sub(1);
        loop {
            let ended = next_line(&mut reader, &mut line)?;
            if ended != Ended::Line {
                end.foreign |= ended == Ended::Long;
                return Ok(end);
            }
            if let Some(before) = Tip::before(&line).filter(|_| end.bytes == 0) {
                end.tip = before;
            }
            if end.tip.follow(&line).is_err() {
                end.foreign = true;
                return Ok(end);
            }
            end.bytes += line.len() as u64 + 1;
        }
    }
}
