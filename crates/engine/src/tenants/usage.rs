//! How much of its limits a tenant has used, and giving it back.

use tidegate_core::{Algorithm, Limit, MAX_COUNT, Micros, Span, Verdict};
use tidegate_stores::Charge;
#[cfg(feature = "redis")]
use tidegate_stores::Store as _;
use tidegate_stores::{StoreError, Verdicts};

use super::limits::{Origin, Reached};
use super::walk::Descriptor;
use crate::decide::{Charges, Intent};
use crate::decision::Source;
use crate::limiter::{Inner, Limiter};
use crate::rules::tree::RuleSet;

/// So many limits are asked about at a time.
const AT_A_TIME: usize = 64;

/// How much of a limit is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The domain.
    pub domain: String,
    /// The rule's name, or its path.
    pub rule: String,
    /// The entries besides the tenant's, as text: `endpoint:POST /orders`; empty for the tenant's own rule.
    pub descriptor: String,
    /// The limit's name, or its window.
    pub name: String,
    /// Its numbers.
    pub limit: Limit,
    /// Units used of what may pass at once.
    pub used: u64,
    /// Units left.
    pub remaining: u64,
    /// Where the window begins; for limits whose window has no beginning, one length of it ago.
    pub window_start: Micros,
    /// Where it ends; for limits whose window has no end, when they are untouched if nothing more is
    /// charged.
    pub window_end: Micros,
    /// Where the numbers come from.
    pub from: Origin,
    /// Who says how much is used: the store that nodes share, or this node's memory where there is none or it
    /// fails.
    pub source: Source,
}

/// What is asked about: a limit's names, and its counter.
struct Counter<'r> {
    reached: usize,
    name: &'r str,
    from: Origin,
    charge: Charge<'r>,
}

impl Limiter {
    /// How much of its limits a tenant has used, by the store that nodes share if there is one; charges
    /// nothing. Without a descriptor it tells of rules whose counters follow from the tenant and fixed
    /// values; for others, `descriptor` has the values of the entries besides the tenant's.
    pub async fn usage(&self, tenant: &str, descriptor: Option<&Descriptor>) -> Vec<Usage> {
        let rules = self.inner.rules.load();
        let reached = rules.reached(tenant, descriptor);
        let counters = rules.counters(&reached, tenant);
        let mut usage = Vec::with_capacity(counters.len());
        for some in counters.chunks(AT_A_TIME) {
            let charges: Charges<'_> = some.iter().map(|counter| counter.charge).collect();
            let (verdicts, source) = self.inner.look(&charges).await;
            let told = some.iter().zip(&verdicts);
            let told = told.map(|(counter, verdict)| counter.usage(&reached, verdict, self.now()));
            usage.extend(told.map(|usage| Usage { source, ..usage }));
        }
        usage
    }

    /// Gives a tenant back all it has used of its limits, as [`Limiter::usage`] finds them. Answers how
    /// many limits that were.
    ///
    /// # Errors
    /// If the store that nodes share fails; some of it may be given back then. Doing it again does no harm.
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
            self.inner.give_back_all(&all.collect()).await?;
        }
        Ok(counters.len())
    }
}

#[cfg_attr(
    not(feature = "redis"),
    expect(clippy::unused_async, reason = "the memory store never waits; stores across a network do")
)]
impl Inner {
    /// What limits hold; if the shared store does not say, by this node's memory.
    async fn look(&self, charges: &Charges<'_>) -> (Verdicts, Source) {
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.shared
            && let Ok(verdicts) = shared.store.settle(charges, Intent::Look).await
        {
            return (verdicts, Source::Shared);
        }
        let mut verdicts = Verdicts::new();
        self.store.settle_now(charges, Intent::Look, &mut verdicts);
        (verdicts, Source::Memory)
    }

    async fn give_back_all(&self, charges: &Charges<'_>) -> Result<(), StoreError> {
        self.store.give_back_now(charges);
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.shared {
            shared.store.give_back(charges).await?;
        }
        Ok(())
    }
}

impl RuleSet {
    /// Charges of nothing for every limit of these rules.
    #[cfg(feature = "redis")]
    pub(super) fn charges<'r>(&'r self, reached: &'r [Reached<'r>], tenant: &str) -> Vec<Charge<'r>> {
        self.counters(reached, tenant).into_iter().map(|counter| counter.charge).collect()
    }

    fn counters<'r>(&'r self, reached: &'r [Reached<'r>], tenant: &str) -> Vec<Counter<'r>> {
        let mut counters = Vec::new();
        for (number, one) in reached.iter().enumerate() {
            let Some(hit) = self.hit(one, tenant) else { continue };
            let part = self.part_of(&one.found.domain.name, Some(hit.rule), &one.entries).unwrap_or_default();
            let mut origins = Vec::new();
            self.each_named(&hit, |base, _, from| origins.push((base.number, from)));
            hit.each_limit(self.seed, |limit| {
                let from = origins.iter().find(|(number, _)| *number == limit.entry.number);
                let charge = Charge { part, ..Charge::new(hit.key.of_limit(limit.salt), limit.limit, 0) };
                let from = from.map_or(Origin::Rule, |(_, from)| *from);
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
