//! The reported percentiles of a latency distribution.

use tidegate_load::Latency;

use crate::spread::Spread;

/// The name of a percentile, and a function that returns its value.
pub(crate) type Percentile = (&'static str, fn(&Latency) -> f64);

pub(crate) const PERCENTILES: [Percentile; 5] = [
    ("50 %", |latency| latency.p50_us),
    ("90 %", |latency| latency.p90_us),
    ("99 %", |latency| latency.p99_us),
    ("99.9 %", |latency| latency.p999_us),
    ("longest", |latency| latency.max_us),
];
/// The index of the median.
pub(crate) const P50: usize = 0;
/// The index of the 99th percentile.
pub(crate) const P99: usize = 2;

/// Returns the spread of each percentile over several passes.
pub(crate) fn percentiles(latencies: &[Latency]) -> Vec<Spread> {
    PERCENTILES.iter().map(|(_, of)| Spread::of(latencies.iter().map(of).collect())).collect()
}
