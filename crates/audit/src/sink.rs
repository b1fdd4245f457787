//! Where sealed lines go.

use std::io;

use tidegate_core::Micros;

use crate::chain::Tip;
use crate::record::{Cut, Retired};

/// Some lines that follow each other, sealed.
#[derive(Debug)]
pub struct Batch {
    /// Whole lines, each with its newline.
    pub lines: Vec<u8>,
    /// The number of the first line.
    pub first: u64,
    /// The newest line; its number and its hash.
    pub tip: Tip,
    /// The time, by the trail's clock.
    pub now: Micros,
}

/// A place for the lines of a trail: files, or a stream. One thread calls it, and may wait in it.
pub trait Sink: Send + 'static {
    /// Where the chain goes on from.
    fn tip(&self) -> Tip;

    /// What was found amiss at the end of the chain and mended, to be recorded as the next line.
    fn mended(&mut self) -> Option<Cut> {
        None
    }

    /// Takes the whole batch, so that it survives a power cut.
    ///
    /// # Errors
    /// If it did not. Then nothing of it counts, and the same lines come again after a pause; a sink
    /// that cannot tell whether they arrived can tell by their numbers.
    fn append(&mut self, batch: &Batch) -> io::Result<()>;

    /// What is old enough to go. The trail records that, and then calls [`retire`](Self::retire).
    fn due(&self, now: Micros) -> Option<Retired> {
        let _ = now;
        None
    }

    /// Removes what was due. What cannot be removed is due again.
    fn retire(&mut self, retired: &Retired) {
        let _ = retired;
    }
}
