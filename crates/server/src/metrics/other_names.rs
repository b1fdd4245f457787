//! Metrics under the names of others, so that boards and alerts made for them go on working. Each family has a bound on
//! its series.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tidegate::{Counts, RuleCount, StoreHealth};
use tidegate_stores::redis::{Circuit, Failures};

use super::Metrics;
use super::export::{counter, gauge};

/// Rules in each family; what the others did is missing, and they are counted.
const MAX_RULES: usize = 1_000;

/// Returns one of the counts of a rule.
type CountOf = fn(&Counts) -> u64;

/// Which names are exported besides our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherNames {
    /// `rate_limit_*`, as articles on rate limiters name them (`metrics.compat_names`).
    pub rate_limit: bool,
    /// Those of envoyproxy/ratelimit (`metrics.envoy_names`).
    pub envoy: bool,
}

/// Writes the metrics under other names that the settings ask for.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &Metrics,
    rules: &[RuleCount],
    store: Option<&StoreHealth>,
) -> fmt::Result {
    let names = metrics.other_names;
    if !names.rate_limit && !names.envoy {
        return Ok(());
    }
    let listed = rules.len().min(MAX_RULES);
    if names.rate_limit {
        let ours: Vec<&RuleCount> = rules.iter().filter(|rule| rule.value.is_none()).collect();
        rate_limit(encoder, metrics, &ours[..ours.len().min(MAX_RULES)], store)?;
    }
    if names.envoy {
        envoy(encoder, &rules[..listed])?;
    }
    let help = "Rules that are missing in metrics under other names, because there are too many";
    gauge(encoder, "ratelimit_other_names_dropped", help, (rules.len() - listed).cast_signed() as i64)
}

fn rate_limit(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &Metrics,
    rules: &[&RuleCount],
    store: Option<&StoreHealth>,
) -> fmt::Result {
    let families: [(&str, &str, CountOf); 2] = [
        ("rate_limit_allowed", "Requests allowed, by rule and domain", |counts| {
            counts.allowed + counts.shadow_denied
        }),
        ("rate_limit_rejected", "Requests rejected, by rule and domain", |counts| counts.denied),
    ];
    for (name, help, of) in families {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for rule in rules {
            let labels = [("identifier_type", &*rule.rule), ("endpoint", &*rule.domain)];
            counter(&mut family, &labels, of(&rule.counts))?;
        }
    }
    let help = "Time spent checking rate limits";
    let name = "rate_limit_check_duration_seconds";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let (sum, count, buckets) = metrics.all_durations();
    family.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    let errors = store.map_or(0, |store| {
        let Failures { late, unreachable, refused, garbled, foreign, full, lost_refunds } = store.failures;
        late + unreachable + refused + garbled + foreign + full + lost_refunds
    });
    let help = "Calls that the shared store did not settle";
    let mut family = encoder.encode_descriptor("rate_limit_redis_errors", help, None, MetricType::Counter)?;
    family.encode_counter::<NoLabelSet, u64, u64>(&errors, None)?;
    let failing =
        store.is_some_and(|store| store.servers.iter().any(|(_, circuit, _)| *circuit == Circuit::Open));
    let help = "1 while a server of the shared store fails";
    gauge(encoder, "rate_limit_fallback_active", help, i64::from(failing))
}

/// Writes what envoyproxy/ratelimit's own mapping for Prometheus makes of its statistics: `key1` and `key2` are the first
/// two entries of the path. They have no `_total`, so they are not counters for the encoder.
fn envoy(encoder: &mut DescriptorEncoder<'_>, rules: &[RuleCount]) -> fmt::Result {
    let families: [(&str, CountOf); 5] = [
        ("ratelimit_service_rate_limit_total_hits", |counts| counts.total_hits),
        ("ratelimit_service_rate_limit_over_limit", |counts| counts.over_limit),
        ("ratelimit_service_rate_limit_near_limit", |counts| counts.near_limit),
        ("ratelimit_service_rate_limit_within_limit", |counts| counts.within_limit),
        ("ratelimit_service_rate_limit_shadow_mode", |counts| counts.shadow_mode),
    ];
    for (name, of) in families {
        let help = "Hits, as envoyproxy/ratelimit counts them";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for rule in rules {
            let (key1, key2) = rule.path.split_once('.').unwrap_or((&rule.path, ""));
            let labels = [("domain", &*rule.domain), ("key1", key1), ("key2", key2)];
            family.encode_family(&labels)?.encode_gauge(&(of(&rule.counts).cast_signed()))?;
        }
    }
    Ok(())
}
