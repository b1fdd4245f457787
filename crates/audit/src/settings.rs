//! How much of a trail is kept, and how much waits in memory.

use std::time::Duration;

/// Bounds of a trail. [`Default`] has the usual ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A segment that would grow past this is followed by another.
    pub segment_bytes: u64,
    /// A segment that began longer ago than this is followed by another at the next record.
    pub segment_age: Duration,
    /// The oldest segments are removed while all of them together are larger than this.
    pub total_bytes: u64,
    /// A segment is removed once everything in it is older than this.
    pub total_age: Duration,
    /// Records that wait for the writer; denials may be half of them.
    pub buffer_records: usize,
    /// Bytes of records that wait for the writer; denials may be half of them.
    pub buffer_bytes: usize,
    /// How long a denial may wait for others, so that they share a write. Changes never wait.
    pub gather: Duration,
    /// How long the writer waits before it tries again what failed.
    pub retry: Duration,
    /// The name of this node in what the trail records of itself.
    pub node: String,
}

const DAY: Duration = Duration::from_hours(24);

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            segment_age: DAY,
            total_bytes: 1 << 30,
            total_age: 400 * DAY,
            buffer_records: 10_000,
            buffer_bytes: 64 << 20,
            gather: Duration::from_millis(500),
            retry: Duration::from_millis(250),
            node: String::new(),
        }
    }
}
