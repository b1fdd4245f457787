//! The destination of sealed lines.

use std::io;

use tidegate_core::Micros;

use crate::chain::Tip;
use crate::record::{Cut, Retired};

/// Consecutive sealed lines.
#[derive(Debug)]
pub struct Batch {
    /// Complete lines, each with its newline.
    pub lines: Vec<u8>,
    /// The number of the first line.
    pub first: u64,
    /// The number and the hash of the last line.
    pub tip: Tip,
    /// The current time by the clock of the trail.
    pub now: Micros,
}

/// A destination for the lines of a trail: files, or a stream. It is called by one thread, and may block.
pub trait Sink: Send + 'static {
    /// Returns the end of the chain, which the next line continues from.
    fn tip(&self) -> Tip;

    /// Returns the damage that was repaired at the end of the chain, once. It is recorded as the next line.
    fn take_cut(&mut self) -> Option<Cut> {
        None
    }

    /// Writes the whole batch, so that it survives a power failure.
    ///
    /// # Errors
    /// Returns an error if the batch is not written. Then none of it counts, and the same lines are written
    /// again after a pause. A sink that does not know whether lines arrived can recognise them by their
    /// numbers.
    fn append(&mut self, batch: &Batch) -> io::Result<()>;

    /// Returns the segments that are old enough to be removed, if any. The trail records this, and then
    /// calls [`retire`](Self::retire).
    fn due(&self, now: Micros) -> Option<Retired> {
        let _ = now;
        None
    }

    /// Removes the segments that were due. Segments that cannot be removed are due again.
    fn retire(&mut self, retired: &Retired) {
        let _ = retired;
    }
}
