//! The bounds of a trail: how much is kept on disk, and how much is buffered in memory.

use std::time::Duration;

/// The bounds of a trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The size at which a new segment begins.
    pub segment_bytes: u64,
    /// The age at which a new segment begins, at the next record.
    pub segment_age: Duration,
    /// The oldest segments are removed while all segments together are larger than this.
    pub total_bytes: u64,
    /// A segment is removed once everything in it is older than this.
    pub total_age: Duration,
    /// The most records that wait for the writer. At most half of them may be denials.
    pub buffer_records: usize,
    /// The most bytes of records that wait for the writer. At most half of them may be denials.
    pub buffer_bytes: usize,
    /// How long a denial waits for others, so that they share a write. Changes do not wait.
    pub gather: Duration,
    /// How long the writer waits before it retries a failed write.
    pub retry: Duration,
    /// The name of this node in the trail's own records.
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
