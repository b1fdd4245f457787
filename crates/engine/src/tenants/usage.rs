//! The usage of a tenant's limits, and its reset.

use tidegate_core::{Algorithm, Limit, MAX_COUNT, Micros, Span, Verdict};
use tidegate_stores::{Charge, StoreError};

use super::limits::{LimitOrigin, Reached};
use super::walk::Descriptor;
use crate::decision::Source;
use crate::limiter::Limiter;
use crate::plan::Charges;
use crate::rules::tree::RuleSet;

/// The number of limits per call to the store.
const AT_A_TIME: usize = 64;

/// The usage of a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The domain.
    pub domain: String,
    /// The name of the rule, or its path.
    pub rule: String,
    /// The entries without the tenant's as text, such as `endpoint:POST /orders`; empty for the tenant's own
    /// rule.
    pub descriptor: String,
    /// The name of the limit, or its window.
    pub name: String,
    /// The numbers of the limit.
    pub limit: Limit,
    /// The units used, out of the burst.
    pub used: u64,
    /// The units left.
    pub remaining: u64,
    /// When the window began; for limits without fixed windows, one window's length ago.
    pub window_start: Micros,
    /// When the window ends; for limits without fixed windows, when the limit is unused again if nothing more
    /// is charged.
    pub window_end: Micros,
    /// Whether the numbers come from the rule, the tier or an override.
    pub from: LimitOrigin,
    /// Where the usage was read: from the shared store, or from this node's memory if there is none or it
    /// fails.
    pub source: Source,
}

/// A limit of a tenant and its counter.
struct Counter<'r> {
    reached: usize,
    name: &'r str,
    from: LimitOrigin,
    charge: Charge<'r>,
}

impl Limiter {
    /// Returns the usage of a tenant's limits, from the shared store if there is one. Charges nothing.
    /// Without a descriptor, it covers the rules whose counters follow from the tenant and fixed values; for
    /// other rules, `descriptor` has the values of the entries without the tenant's.
    pub async fn usage(&self, tenant: &str, descriptor: Option<&Descriptor>) -> Vec<Usage> {
        let rules = self.inner.rules.load();
        let reached = rules.reached(tenant, descriptor);
        let counters = rules.counters(&reached, tenant);
        let mut usage = Vec::with_capacity(counters.len());
        for some in counters.chunks(AT_A_TIME) {
            let charges: Charges<'_> = some.iter().map(|counter| counter.charge).collect();
            let (verdicts, source) = self.inner.backend.look(&charges).await;
            let found = some.iter().zip(&verdicts);
            let found = found.map(|(counter, verdict)| counter.usage(&reached, verdict, self.now()));
            usage.extend(found.map(|usage| Usage { source, ..usage }));
        }
        usage
    }

    /// Refunds everything that a tenant has used of the limits that [`Limiter::usage`] returns. Returns the
    /// number of limits.
    ///
    /// # Errors
    /// Returns an error if the shared store fails. Some limits may be refunded then. It is safe to retry.
    pub async fn reset_usage(
        &self,
        tenant: &str,
        descriptor: Option<&Descriptor>,
    ) -> Result<usize, StoreError> {
        let rules = self.inner.rules.load();
        let reached = rules.reached(tenant, descriptor);
        let counters = rules.counters(&reached, tenant);
        for some in counters.chunks(AT_A_TIME) {
            let all = some.iter().map(|counter| Charge { cost: MAX_COUNT, ..counter.charge });
            self.inner.backend.give_back_everywhere(&all.collect::<Charges<'_>>()).await?;
        }
        Ok(counters.len())
    }
}

impl RuleSet {
    /// Returns a charge of cost 0 for every limit of these rules.
    pub(super) fn charges<'r>(&'r self, reached: &'r [Reached<'r>], tenant: &str) -> Vec<Charge<'r>> {
        self.counters(reached, tenant).into_iter().map(|counter| counter.charge).collect()
    }

    fn counters<'r>(&'r self, reached: &'r [Reached<'r>], tenant: &str) -> Vec<Counter<'r>> {
        let mut counters = Vec::new();
        for (number, one) in reached.iter().enumerate() {
            let Some(hit) = self.hit(one, tenant) else { continue };
            let partition =
                self.partition_of(&one.found.domain.name, Some(hit.rule), &one.entries).unwrap_or_default();
            let mut origins = Vec::new();
            self.each_named(&hit, |base, _, from| origins.push((base.number, from)));
            hit.each_limit(self.seed, |limit| {
                let from = origins.iter().find(|(number, _)| *number == limit.entry.number);
                let charge =
                    Charge { partition, ..Charge::new(hit.key.of_limit(limit.salt), limit.limit, 0) };
                let from = from.map_or(LimitOrigin::Rule, |(_, from)| *from);
                counters.push(Counter { reached: number, name: &limit.entry.name, from, charge });
            });
        }
        counters
    }
}

impl Counter<'_> {
    fn usage(&self, reached: &[Reached<'_>], verdict: &Verdict, now: Micros) -> Usage {
        let Reached { found, .. } = &reached[self.reached];
        let limit = self.charge.limit;
        let window = match limit.algorithm() {
            Algorithm::FixedWindow => limit.window().span(now),
            _ => Span {
                start: Micros(now.0.saturating_sub(limit.period_us())),
                end: now.plus(verdict.reset_after_us),
            },
        };
        Usage {
            domain: found.domain.name.to_string(),
            rule: found.rule.id.to_string(),
            descriptor: found.text(),
            name: self.name.to_owned(),
            limit: limit.clone(),
            used: limit.burst().saturating_sub(verdict.remaining),
            remaining: verdict.remaining,
            window_start: window.start,
            window_end: window.end,
            from: self.from,
            source: Source::default(),
        }
    }
}
