//! The metrics of memory.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tidegate::Limiter;

use super::export::counter;
use crate::memory::{INLINE_LIMIT_BYTES, KEY_BYTES, Memory, RESERVATION_BYTES, RULE_BYTES, TENANT_BYTES};

/// Writes the metrics of the memory.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, memory: &Memory, limiter: &Limiter) -> fmt::Result {
    let budgets = [
        ("bodies", memory.bodies()),
        ("admin_bodies", memory.admin_bodies()),
        ("streams", memory.streams()),
        ("deciding", memory.deciding()),
    ];
    let counted = [
        ("keys", limiter.stats().keys, KEY_BYTES),
        ("reservations", limiter.reservations(), RESERVATION_BYTES),
        ("rules", limiter.counts().len(), RULE_BYTES),
        ("tenants", limiter.tenants(), TENANT_BYTES),
        ("inline_limits", limiter.inline_limits_held(), INLINE_LIMIT_BYTES),
    ];
    let counted = counted.map(|(part, count, bytes)| (part, signed(count as u64 * bytes)));
    let help =
        "Memory in use: of the process, and by what it is for; what is counted by number is an estimate";
    let mut used = encoder.encode_descriptor("ratelimit_memory_bytes", help, None, MetricType::Gauge)?;
    let parts = budgets.map(|(part, budget)| (part, signed(budget.used() as u64)));
    let process = [("process", signed(memory.resident()))];
    for (part, bytes) in process.into_iter().chain(counted).chain(parts) {
        used.encode_family(&[("part", part)])?.encode_gauge(&bytes)?;
    }
    let help = "Memory that each part may use; that of the process is memory.max_bytes";
    let mut limits =
        encoder.encode_descriptor("ratelimit_memory_limit_bytes", help, None, MetricType::Gauge)?;
    let limit_of_keys = signed(memory.max_keys() as u64 * KEY_BYTES);
    let parts = budgets.map(|(part, budget)| (part, signed(budget.limit() as u64)));
    let limit_of_reservations = signed(memory.max_reservations() as u64 * RESERVATION_BYTES);
    let others = [
        ("process", signed(memory.limit())),
        ("keys", limit_of_keys),
        ("reservations", limit_of_reservations),
        ("inline_limits", signed(memory.max_inline_limits() as u64 * INLINE_LIMIT_BYTES)),
    ];
    for (part, bytes) in others.into_iter().chain(parts) {
        limits.encode_family(&[("part", part)])?.encode_gauge(&bytes)?;
    }
    let help = "Refusals for lack of memory: bodies, streams and waiting requests beyond their part, connections while the process is near its limit";
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
