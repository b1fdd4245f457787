//! How much memory and how many connections there may be, and what is in use.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tidegate::Limiter;

use super::export::counter;
use crate::listen::capacity::Capacity;
use crate::memory::{KEY_BYTES, Memory};

/// Writes them.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    memory: &Memory,
    capacity: Capacity,
    limiter: &Limiter,
) -> fmt::Result {
    let help = "Connections that a listener may have at once";
    let mut most = encoder.encode_descriptor("ratelimit_connections_max", help, None, MetricType::Gauge)?;
    for (listener, count) in [("grpc", capacity.grpc), ("http", capacity.http), ("admin", capacity.admin)] {
        most.encode_family(&[("listener", listener)])?.encode_gauge(&signed(count as u64))?;
    }
    let budgets =
        [("bodies", memory.bodies()), ("admin_bodies", memory.admin_bodies()), ("streams", memory.streams())];
    let keys = signed(limiter.stats().keys as u64 * KEY_BYTES);
    let help = "Memory in use, by part: the whole process, and what is held for bodies, streams and counters";
    let mut used = encoder.encode_descriptor("ratelimit_memory_bytes", help, None, MetricType::Gauge)?;
    let parts = budgets.map(|(part, budget)| (part, signed(budget.used() as u64)));
    for (part, bytes) in [("process", signed(memory.resident())), ("keys", keys)].into_iter().chain(parts) {
        used.encode_family(&[("part", part)])?.encode_gauge(&bytes)?;
    }
    let help = "Memory that each part may use; the process is memory.max_bytes";
    let mut limits =
        encoder.encode_descriptor("ratelimit_memory_limit_bytes", help, None, MetricType::Gauge)?;
    let limit_of_keys = signed(memory.max_keys() as u64 * KEY_BYTES);
    let parts = budgets.map(|(part, budget)| (part, signed(budget.limit() as u64)));
    for (part, bytes) in
        [("process", signed(memory.limit())), ("keys", limit_of_keys)].into_iter().chain(parts)
    {
        limits.encode_family(&[("part", part)])?.encode_gauge(&bytes)?;
    }
    let help = "How often memory was refused: bodies and streams beyond their part, connections while the process is near its limit";
    let mut refused =
        encoder.encode_descriptor("ratelimit_memory_refused", help, None, MetricType::Counter)?;
    counter(&mut refused, &[("part", "connections")], memory.shed())?;
    for (part, budget) in budgets {
        counter(&mut refused, &[("part", part)], budget.refused())?;
    }
    Ok(())
}

/// As gauges are written.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
