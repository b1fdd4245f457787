//! The metrics of memory.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tidegate::Limiter;

use super::export::counter;
use crate::memory::{KEY_BYTES, Memory};

/// Writes the metrics of the memory.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, memory: &Memory, limiter: &Limiter) -> fmt::Result {
    let budgets =
        [("bodies", memory.bodies()), ("admin_bodies", memory.admin_bodies()), ("streams", memory.streams())];
    let keys = signed(limiter.stats().keys as u64 * KEY_BYTES);
    let help = "Memory in use: of the process, and for bodies, streams and counters";
    let mut used = encoder.encode_descriptor("ratelimit_memory_bytes", help, None, MetricType::Gauge)?;
    let parts = budgets.map(|(part, budget)| (part, signed(budget.used() as u64)));
    for (part, bytes) in [("process", signed(memory.resident())), ("keys", keys)].into_iter().chain(parts) {
        used.encode_family(&[("part", part)])?.encode_gauge(&bytes)?;
    }
    let help = "Memory that each part may use; that of the process is memory.max_bytes";
    let mut limits =
        encoder.encode_descriptor("ratelimit_memory_limit_bytes", help, None, MetricType::Gauge)?;
    let limit_of_keys = signed(memory.max_keys() as u64 * KEY_BYTES);
    let parts = budgets.map(|(part, budget)| (part, signed(budget.limit() as u64)));
    for (part, bytes) in
        [("process", signed(memory.limit())), ("keys", limit_of_keys)].into_iter().chain(parts)
    {
        limits.encode_family(&[("part", part)])?.encode_gauge(&bytes)?;
    }
    let help = "Refusals for lack of memory: bodies and streams beyond their part, connections while the process is near its limit";
    let mut refused =
        encoder.encode_descriptor("ratelimit_memory_refused", help, None, MetricType::Counter)?;
    counter(&mut refused, &[("part", "connections")], memory.shed())?;
    for (part, budget) in budgets {
        counter(&mut refused, &[("part", part)], budget.refused())?;
    }
    Ok(())
}

/// Converts a number for a gauge.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
