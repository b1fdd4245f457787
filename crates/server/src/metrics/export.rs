//! The metrics of the service in the formats of Prometheus.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tidegate::{Counts, Limiter, RuleCount, StoreHealth, Switch};
use tidegate_stores::redis::{Circuit, Failures, LATENCY_BOUNDS, Latencies};

use super::{Connections, Metrics, Reservations, memory, other_names};
use crate::build_info;
use crate::control::CatalogHealth;
use crate::control::switches::SwitchState;
use crate::health::Health;
use crate::recorder::{Recorder, TENTHS, TierUtilisation};

/// The format of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, which every tool supports.
    Prometheus,
    /// `OpenMetrics`, in which the name of a counter family has no `_total`.
    OpenMetrics,
}

impl Format {
    /// Returns the content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Returns the metrics as text.
///
/// # Errors
/// If the encoder fails, which should not happen.
pub fn export(
    limiter: &Limiter,
    metrics: &Metrics,
    health: &Health,
    recorder: &Recorder,
    audit_dropped: u64,
    format: Format,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let (limiter, metrics, health) = (limiter.clone(), metrics.clone(), health.clone());
    let snapshot = Snapshot { limiter, metrics, health, recorder: recorder.clone(), audit_dropped };
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(if format == Format::OpenMetrics { text } else { for_prometheus(&text) })
}

/// Converts `OpenMetrics`, which is the only format of the encoder. In the older format a counter family has the name of its
/// series, and there is no end mark.
fn for_prometheus(open: &str) -> String {
    let mut text = String::with_capacity(open.len() + 256);
    let mut help = None;
    for line in open.lines() {
        if let Some(of_family) = line.strip_prefix("# HELP ") {
            help = of_family.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([line, "\n"]);
        }
    }
    text
}

struct Snapshot {
    limiter: Limiter,
    metrics: Metrics,
    health: Health,
    recorder: Recorder,
    audit_dropped: u64,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        build_info(&mut encoder)?;
        self.decisions(&mut encoder)?;
        self.recorded(&mut encoder)?;
        self.durations(&mut encoder)?;
        self.reservations(&mut encoder)?;
        self.rules(&mut encoder)?;
        self.store(&mut encoder)?;
        self.control(&mut encoder)?;
        self.snapshots(&mut encoder)?;
        self.connections(&mut encoder)?;
        if let Some(memory) = &self.metrics.memory {
            memory::encode(&mut encoder, memory, &self.limiter)?;
        }
        self.certificates(&mut encoder)?;
        let store = self.limiter.store_health();
        other_names::encode(&mut encoder, &self.metrics, &self.limiter.counts(), store.as_ref())
    }
}

impl Snapshot {
    fn decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.limiter.counts();
        let help = "Decisions of each rule on the requests that it applies to";
        let mut all = encoder.encode_descriptor("ratelimit_decisions", help, None, MetricType::Counter)?;
        for rule in rules.iter().filter(|rule| rule.value.is_none()) {
            outcomes(&mut all, &[("domain", &*rule.domain), ("rule", &*rule.rule)], &rule.counts)?;
        }
        let errors = self.metrics.refused.get();
        counter(&mut all, &[("domain", ""), ("rule", ""), ("outcome", "error")], errors)?;
        let help = "Decisions in which a rule denied the request";
        let mut denied = encoder.encode_descriptor("ratelimit_denied", help, None, MetricType::Counter)?;
        for rule in rules.iter().filter(|rule| rule.value.is_none()) {
            counter(&mut denied, &[("domain", &*rule.domain), ("rule", &*rule.rule)], rule.counts.denied)?;
        }
        let help = "Requests decided in canonical form, because a value was not text or exceeded a bound";
        let mut canonical =
            encoder.encode_descriptor("ratelimit_canonicalized_requests", help, None, MetricType::Counter)?;
        let count = self.metrics.canonicalized.get();
        canonical.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
        let valued: Vec<&RuleCount> = rules.iter().filter(|rule| rule.value.is_some()).collect();
        if valued.is_empty() {
            return Ok(());
        }
        let help = "Decisions by value of the key, for rules that ask for it";
        let mut by_value =
            encoder.encode_descriptor("ratelimit_value_decisions", help, None, MetricType::Counter)?;
        for rule in valued {
            let value = rule.value.as_deref().unwrap_or_default();
            let labels = [("domain", &*rule.domain), ("rule", &*rule.rule), ("value", value)];
            outcomes(&mut by_value, &labels, &rule.counts)?;
        }
        Ok(())
    }

    /// Writes what the recorder knows.
    #[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "Prometheus counts in shares")]
    fn recorded(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "Share of a limit that was used after a decision, by tier; estimated from a sample of decisions";
        let mut family =
            encoder.encode_descriptor("ratelimit_remaining", help, None, MetricType::Histogram)?;
        for (tier, TierUtilisation { buckets, sum_thousandths }) in self.recorder.utilisation() {
            let bound = |tenth: usize| if tenth + 1 == TENTHS { 1.0 } else { (tenth + 1) as f64 / 10.0 };
            let mut counts: Vec<(f64, u64)> =
                buckets.iter().enumerate().map(|(tenth, count)| (bound(tenth), *count)).collect();
            counts.push((f64::INFINITY, 0));
            let (sum, count) = (sum_thousandths as f64 / 1000.0, buckets.iter().sum());
            let labels = [("tier", tier.as_str())];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &counts, None)?;
        }
        let counts = self.recorder.warning_counts();
        let help = "Keys that reached a percentage of a limit, each once in its window";
        let mut warned = encoder.encode_descriptor("ratelimit_warnings", help, None, MetricType::Counter)?;
        warned.encode_counter::<NoLabelSet, u64, u64>(&counts.warned, None)?;
        let help = "Warnings for the webhook, by what became of them";
        let mut sent = encoder.encode_descriptor("ratelimit_webhook", help, None, MetricType::Counter)?;
        for (outcome, count) in
            [("sent", counts.sent), ("failed", counts.failed), ("dropped", counts.dropped)]
        {
            counter(&mut sent, &[("outcome", outcome)], count)?;
        }
        let help = "Samples of decisions that were dropped because too many waited to be recorded";
        let mut dropped =
            encoder.encode_descriptor("ratelimit_recorder_dropped", help, None, MetricType::Counter)?;
        dropped.encode_counter::<NoLabelSet, u64, u64>(&self.recorder.dropped(), None)
    }

    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time from a complete request to its complete response, without the network";
        let name = "ratelimit_check_duration_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for front_end in self.metrics.front_ends() {
            let (sum, count, buckets) = front_end.durations.read();
            let labels = [("api", front_end.name)];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn reservations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Reservations by outcome";
        let mut ends =
            encoder.encode_descriptor("ratelimit_reservations", help, None, MetricType::Counter)?;
        let Reservations { reserved, denied, settled, gone, failed } = &self.metrics.reservations;
        let outcomes = [
            ("reserved", reserved),
            ("denied", denied),
            ("settled", settled),
            ("gone", gone),
            ("failed", failed),
        ];
        for (outcome, count) in outcomes {
            counter(&mut ends, &[("outcome", outcome)], count.get())?;
        }
        let help = "Reservations in the memory of this node that are not settled yet";
        let waiting = i64::try_from(self.limiter.reservations()).unwrap_or(i64::MAX);
        gauge(encoder, "ratelimit_reservations_held", help, waiting)
    }

    fn rules(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Loads of the rules, including the first";
        let mut loads = encoder.encode_descriptor("ratelimit_rule_loads", help, None, MetricType::Counter)?;
        counter(&mut loads, &[("outcome", "loaded")], self.limiter.generation())?;
        counter(&mut loads, &[("outcome", "refused")], self.limiter.refusals())?;
        let help = "1 while the rules on disk are refused and older ones are in force";
        let refused = i64::from(self.limiter.refused_rules().is_some());
        gauge(encoder, "ratelimit_rules_refused", help, refused)
    }

    fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.limiter.stats();
        gauge(encoder, "ratelimit_keys", "Counters held in memory", stats.keys.cast_signed() as i64)?;
        let help = "Counters in use that were removed because the store was full";
        let mut evicted =
            encoder.encode_descriptor("ratelimit_keys_evicted", help, None, MetricType::Counter)?;
        evicted.encode_counter::<NoLabelSet, u64, u64>(&stats.evicted, None)?;
        let help = "0 normal, 1 a server of the store fails, 2 all do or one for long, 3 nothing is enforced";
        gauge(encoder, "ratelimit_degradation_level", help, i64::from(self.health.degradation()))?;
        match self.limiter.store_health() {
            Some(health) => shared_store(encoder, &health),
            None => Ok(()),
        }
    }

    fn control(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Records of changes and denials that are missing in the audit files";
        let mut dropped =
            encoder.encode_descriptor("ratelimit_audit_dropped", help, None, MetricType::Counter)?;
        let lost = self.health.catalog().map_or(0, CatalogHealth::lost_records);
        dropped.encode_counter::<NoLabelSet, u64, u64>(&(self.audit_dropped + lost), None)?;
        let Some(catalog) = self.health.catalog() else { return Ok(()) };
        let help = "1 if the last call to the catalog succeeded";
        gauge(encoder, "ratelimit_catalog_up", help, i64::from(catalog.is_reachable()))?;
        let help = "Version of the catalog that is in force; the same on all nodes";
        gauge(encoder, "ratelimit_catalog_version", help, catalog.version().cast_signed())?;
        let help =
            "1 after this node has read the catalog; before, it is not ready if catalog_required is set";
        gauge(encoder, "ratelimit_catalog_known", help, i64::from(catalog.is_known()))?;
        let help =
            "Changes that are not in the audit files yet, because the disk or the catalog does not answer";
        gauge(encoder, "ratelimit_audit_waiting", help, catalog.unrecorded().cast_signed())?;
        if let Some(skew) = catalog.clock().skew() {
            let help = "How far this node's clock is ahead of the catalog's";
            let name = "ratelimit_clock_skew_seconds";
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            gauge.encode_gauge(&skew.as_secs_f64())?;
        }
        switches(encoder, &catalog.switches())?;
        let help = "1 while the catalog's rules are refused and older ones are in force";
        gauge(encoder, "ratelimit_catalog_rules_refused", help, i64::from(catalog.refused().is_some()))?;
        let tenants = i64::try_from(self.limiter.tenants()).unwrap_or(i64::MAX);
        gauge(encoder, "ratelimit_tenants", "Tenants with a tier or limits of their own", tenants)?;
        let help = "Failed calls to the catalog";
        let mut failures =
            encoder.encode_descriptor("ratelimit_catalog_failures", help, None, MetricType::Counter)?;
        failures.encode_counter::<NoLabelSet, u64, u64>(&catalog.failures(), None)
    }

    fn snapshots(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(health) = self.limiter.snapshot_health() else { return Ok(()) };
        let help = "Unix time of the last snapshot; 0 before the first";
        let written_at_s = health.written_at.map_or(0, |at| at.0 / 1_000_000);
        gauge(encoder, "ratelimit_snapshot_timestamp_seconds", help, written_at_s.cast_signed())?;
        let help = "Time it took to write the last snapshot";
        let mut took = encoder.encode_descriptor(
            "ratelimit_snapshot_duration_seconds",
            help,
            None,
            MetricType::Gauge,
        )?;
        took.encode_gauge(&health.took.as_secs_f64())?;
        let help = "Snapshots that could not be written";
        let mut failures =
            encoder.encode_descriptor("ratelimit_snapshot_failures", help, None, MetricType::Counter)?;
        failures.encode_counter::<NoLabelSet, u64, u64>(&health.failures, None)
    }

    /// Writes the metrics of certificates, for listeners with TLS.
    fn certificates(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let listeners = self.metrics.listeners();
        let secured: Vec<_> = listeners
            .iter()
            .filter_map(|listener| Some((listener.name, listener.certificates.expires_at_s()?, listener)))
            .collect();
        if secured.is_empty() {
            return Ok(());
        }
        let help = "Unix time at which the certificate of a listener expires";
        let name = "ratelimit_certificate_expiry_timestamp_seconds";
        let mut expiry = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (name, expires_at_s, _) in &secured {
            expiry.encode_family(&[("listener", *name)])?.encode_gauge(expires_at_s)?;
        }
        let help = "Failed reloads of changed certificates, one per second";
        let name = "ratelimit_certificate_reload_failures";
        let mut refused = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (name, _, listener) in &secured {
            counter(&mut refused, &[("listener", *name)], listener.certificates.refused.get())?;
        }
        Ok(())
    }

    fn connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let listeners = self.metrics.listeners();
        let help = "Open connections";
        let mut open = encoder.encode_descriptor("ratelimit_connections", help, None, MetricType::Gauge)?;
        for listener in &listeners {
            let connections = listener.connections.open().cast_signed();
            open.encode_family(&[("listener", listener.name)])?.encode_gauge(&connections)?;
        }
        let help = "Maximum number of connections of a listener";
        let mut most =
            encoder.encode_descriptor("ratelimit_connections_max", help, None, MetricType::Gauge)?;
        for listener in &listeners {
            let max = i64::try_from(listener.max_connections.load(Relaxed)).unwrap_or(i64::MAX);
            most.encode_family(&[("listener", listener.name)])?.encode_gauge(&max)?;
        }
        let help = "Connections by event";
        let mut ends =
            encoder.encode_descriptor("ratelimit_connection_events", help, None, MetricType::Counter)?;
        for listener in &listeners {
            let Connections { accepted, closed, shed, timed_out } = &listener.connections;
            let events =
                [("accepted", accepted), ("closed", closed), ("shed", shed), ("timed_out", timed_out)];
            for (event, count) in events {
                counter(&mut ends, &[("listener", listener.name), ("event", event)], count.get())?;
            }
        }
        Ok(())
    }
}

/// Writes the version of the program.
fn build_info(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Version and commit of the program; always 1";
    let mut info = encoder.encode_descriptor("tidegate_build_info", help, None, MetricType::Gauge)?;
    let labels = [("version", build_info::VERSION), ("commit", build_info::COMMIT)];
    info.encode_family(&labels)?.encode_gauge(&1_i64)
}

/// Writes the kill switches that are set.
fn switches(encoder: &mut DescriptorEncoder<'_>, switches: &[SwitchState]) -> fmt::Result {
    if switches.is_empty() {
        return Ok(());
    }
    let help = "Kill switches that are set, by rule and origin: 0 enforce, 1 shadow, 2 off";
    let mut family = encoder.encode_descriptor("ratelimit_switch", help, None, MetricType::Gauge)?;
    for SwitchState { rule, mode, from } in switches {
        let mode: i64 = match mode {
            Switch::Enforce => 0,
            Switch::Shadow => 1,
            Switch::Off => 2,
        };
        family.encode_family(&[("rule", rule.as_str()), ("from", from.name())])?.encode_gauge(&mode)?;
    }
    Ok(())
}

/// Writes the metrics of the shared store.
fn shared_store(encoder: &mut DescriptorEncoder<'_>, health: &StoreHealth) -> fmt::Result {
    let help = "Batches that the shared store did not settle, by reason";
    let mut errors = encoder.encode_descriptor("ratelimit_redis_errors", help, None, MetricType::Counter)?;
    let Failures { late, unreachable, refused, garbled, foreign, full, lost_refunds } = health.failures;
    let kinds = [
        ("late", late),
        ("unreachable", unreachable),
        ("refused", refused),
        ("garbled", garbled),
        ("foreign", foreign),
        ("queue_full", full),
        ("refund_lost", lost_refunds),
    ];
    for (kind, count) in kinds {
        counter(&mut errors, &[("kind", kind)], count)?;
    }
    let help = "Decisions that let a request pass because the shared store failed";
    let mut open = encoder.encode_descriptor("ratelimit_failopen", help, None, MetricType::Counter)?;
    open.encode_counter::<NoLabelSet, u64, u64>(&health.let_pass, None)?;
    let help = "Decisions made without the shared store, by policy";
    let mut fallback =
        encoder.encode_descriptor("ratelimit_fallback_decisions", help, None, MetricType::Counter)?;
    for (policy, count) in [("allow", health.let_pass), ("deny", health.denied), ("local", health.local)] {
        counter(&mut fallback, &[("policy", policy)], count)?;
    }
    let failing = health.servers.iter().any(|(_, circuit, _)| *circuit == Circuit::Open);
    let help = "1 while on_store_error applies for a server of the shared store";
    gauge(encoder, "ratelimit_fallback_active", help, i64::from(failing))?;
    gauge(encoder, "ratelimit_nodes", "Nodes that share the store", i64::from(health.nodes))?;
    let help =
        "State of the circuit breaker: 0 closed (the server is used), 1 recovering, 2 open (it is not used)";
    let mut circuits = encoder.encode_descriptor("ratelimit_circuit_state", help, None, MetricType::Gauge)?;
    for (server, circuit, _) in &health.servers {
        let state: i64 = match circuit {
            Circuit::Closed => 0,
            Circuit::Recovering => 1,
            Circuit::Open => 2,
        };
        circuits.encode_family(&[("shard", server.as_str())])?.encode_gauge(&state)?;
    }
    store_durations(encoder, &health.latencies)
}

#[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "Prometheus counts in seconds")]
fn store_durations(encoder: &mut DescriptorEncoder<'_>, servers: &[Latencies]) -> fmt::Result {
    let help = "Time from sending a batch to a server of the shared store to its reply or timeout";
    let name = "ratelimit_redis_duration_seconds";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for Latencies { server, buckets, sum } in servers {
        let bounds = LATENCY_BOUNDS.iter().map(|bound| bound.as_micros() as f64 / 1e6);
        let counts: Vec<_> = bounds.chain([f64::INFINITY]).zip(*buckets).collect();
        family.encode_family(&[("shard", server.as_str())])?.encode_histogram::<NoLabelSet>(
            sum.as_secs_f64(),
            buckets.iter().sum(),
            &counts,
            None,
        )?;
    }
    Ok(())
}

fn outcomes(family: &mut MetricEncoder<'_>, labels: &[(&str, &str)], counts: &Counts) -> fmt::Result {
    let outcomes =
        [("allowed", counts.allowed), ("denied", counts.denied), ("shadow_denied", counts.shadow_denied)];
    for (outcome, count) in outcomes {
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("outcome", outcome)]).collect();
        counter(family, &labels, count)?;
    }
    Ok(())
}

pub(super) fn counter(family: &mut MetricEncoder<'_>, labels: &[(&str, &str)], value: u64) -> fmt::Result {
    family.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

pub(super) fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}
