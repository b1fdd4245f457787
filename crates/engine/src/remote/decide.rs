//! A decision from an answer, or without one.

use std::sync::Arc;

use tidegate_core::{Algorithm, Key, Limit, MAX_COUNT, NEVER_US, Outcome, Verdict, Window};

use super::answer::{Answer, Said, SaidLimit};
use super::ask::{Costs, look_at, write};
use super::{RemoteError, RemoteFallback, Service};
use crate::decide::{Charges, Intent, Scope, add, decide, settle};
use crate::decision::{Decision, Item, Items, Source};
use crate::inline::{Brought, InlineLimits};
use crate::limiter::Inner;
use crate::rendered::Rendered;
use crate::request::Request;
use crate::rules::current::Rules;
use crate::rules::find::Hit;
use crate::rules::tree::{LimitEntry, RuleEntry};

/// The header that tells of windows.
const POLICY: &str = "ratelimit-policy";

const RATES: Scope = Scope::Rates { hold: false };

impl Inner {
    /// Decides by the service, or without it if it does not answer.
    pub(crate) async fn decide_remote(
        &self,
        service: &Arc<Service>,
        request: &Request<'_>,
        intent: Intent,
    ) -> Decision {
        let answer = match intent {
            Intent::Look => service.look(request).await,
            Intent::Take => service.check(write(request, Costs::Asked, None)).await,
        };
        match answer {
            Ok(answer) => {
                let mut decision = decision(self.rules.load(), answer);
                if intent == Intent::Look {
                    // What was rendered is about another question.
                    decision.under.brought.forget_rendered();
                }
                decision
            }
            Err(_) => self.without_service(service, request, intent),
        }
    }

    /// Decides a request that the service does not.
    pub(super) fn without_service(
        &self,
        service: &Service,
        request: &Request<'_>,
        intent: Intent,
    ) -> Decision {
        let rules = self.rules.load();
        match service.fallback {
            RemoteFallback::Allow => unseen(rules, Source::Allow),
            RemoteFallback::Deny => unseen(rules, Source::Deny),
            RemoteFallback::Local => self.decide_locally(service, rules, request, intent),
        }
    }

    fn decide_locally(
        &self,
        service: &Service,
        rules: Rules,
        request: &Request<'_>,
        intent: Intent,
    ) -> Decision {
        if rules.domain(request.domain()).is_some() {
            let mut decision = decide(rules, &self.store, request, RATES, intent);
            decision.source = Source::Local;
            return decision;
        }
        let brought = service.brought_locally(request);
        let (charges, mut items) = charges_locally(&rules, request, &brought);
        if items.is_empty() {
            drop(charges);
            return unseen(rules, Source::Allow);
        }
        let allowed = settle(&self.store, &charges, &mut items, intent);
        // They borrow what the decision takes along.
        drop(charges);
        decided_locally(rules, brought, allowed, items)
    }
}

impl Service {
    /// The limits that hold a request here: its own, and where it has none those for the case.
    pub(super) fn brought_locally(&self, request: &Request<'_>) -> Brought {
        let mut brought = request.brought().clone();
        if let Some(limits) = &self.local_limits {
            let without = |descriptor: &usize| request.limits_of(*descriptor).is_none();
            let descriptors = 0..request.descriptors().count();
            descriptors.filter(without).for_each(|descriptor| brought.add(descriptor, limits));
        }
        brought
    }

    /// What a check would answer, by what is left of each limit. An answer does not tell which descriptor its
    /// limits are of, so descriptors of different costs are asked about one by one.
    async fn look(self: &Arc<Self>, request: &Request<'_>) -> Result<Answer, RemoteError> {
        let costs: Vec<u64> = request.descriptors().map(|(_, cost)| cost).collect();
        if costs.iter().all(|cost| *cost == costs[0]) {
            let mut answer = self.check(write(request, Costs::Nothing, None)).await?;
            answer.weigh(costs.first().copied().unwrap_or(0));
            return Ok(answer);
        }
        let mut whole: Option<Answer> = None;
        for (descriptor, cost) in costs.into_iter().enumerate() {
            let mut answer = self.check(look_at(request, descriptor)).await?;
            answer.weigh(cost);
            match &mut whole {
                None => whole = Some(answer),
                Some(whole) => whole.join(answer),
            }
        }
        whole.ok_or_else(|| RemoteError::Garbled("a request without descriptors".to_owned()))
    }
}

impl Answer {
    /// Judges by what is left whether so much would pass.
    fn weigh(&mut self, cost: u64) {
        for limit in &mut self.said.limits {
            limit.retry_after_ms = (limit.remaining < cost).then_some(limit.reset_after_ms.max(1));
        }
        let denying = |limit: &SaidLimit| !limit.shadow && limit.retry_after_ms.is_some();
        self.said.allowed = !self.said.limits.iter().any(denying);
    }

    /// Takes in the limits of another descriptor.
    fn join(&mut self, other: Self) {
        let policies = |answer: &Self| {
            let found = answer.headers.iter().find(|(name, _)| name == POLICY);
            found.map(|(_, value)| value.clone())
        };
        let both: Vec<_> = [policies(self), policies(&other)].into_iter().flatten().collect();
        self.headers = vec![(POLICY.to_owned(), both.join(", "))];
        self.said.allowed &= other.said.allowed;
        self.said.limits.extend(other.said.limits);
    }
}

/// The charges of a request under limits that are not in the rules.
pub(super) fn charges_locally<'r>(
    rules: &'r Rules,
    request: &'r Request<'_>,
    brought: &'r Brought,
) -> (Charges<'r>, Items) {
    let (mut charges, mut items) = (Charges::new(), Items::new());
    let domain = rules.seed.text(request.domain());
    for (index, (entries, cost)) in request.descriptors().enumerate() {
        let Some(InlineLimits(rule, _)) = brought.of(index) else { continue };
        let key = own_key(rule.key, domain, RuleEntry::inline_values(rules.seed, entries));
        let descriptor = index as u16;
        let hit = Hit { rule, descriptor, tier: None, key, cost, enforced: true, own: None, entries };
        add(rules, &hit, RATES, &mut charges, &mut items);
    }
    (charges, items)
}

pub(super) fn decided_locally(rules: Rules, brought: Brought, allowed: bool, items: Items) -> Decision {
    let mut decision = Decision::new(rules, 0, allowed, items);
    decision.source = Source::Local;
    *decision.under.brought = brought;
    decision
}

/// Counters of different domains are apart.
fn own_key(rule: Key, domain: Key, values: Key) -> Key {
    rule.then(domain).then(values)
}

/// A decision that nobody looked at.
pub(super) fn unseen(rules: Rules, source: Source) -> Decision {
    let mut decision = Decision::new(rules, 0, source != Source::Deny, Items::new());
    decision.source = source;
    decision
}

/// The service's decision.
pub(super) fn decision(rules: Rules, answer: Answer) -> Decision {
    let Answer { status, content_type, headers, body, said } = answer;
    let rendered = Rendered { status, content_type, headers, body, deciding: said.deciding() };
    let told = windows_s(rendered.header(POLICY).unwrap_or_default());
    let mut enforced = 0;
    let (mut items, mut limits) = (Items::new(), Vec::with_capacity(said.limits.len()));
    for (place, limit) in said.limits.iter().enumerate().take(usize::from(u16::MAX)) {
        // The header tells of enforced limits, in their order.
        let window_s = told.get(enforced).copied().flatten().filter(|_| !limit.shadow);
        enforced += usize::from(!limit.shadow);
        items.push(Item::answered(place as u16, limit.shadow, verdict(&said, place, rendered.deciding)));
        limits.push((place, InlineLimits(Arc::new(rule(limit, window_s)), Arc::default())));
    }
    let mut decision = Decision::new(rules, 0, said.allowed, items);
    decision.source = said.source();
    *decision.under.brought = Brought::answered(limits, Arc::new(rendered));
    decision
}

fn verdict(said: &Said, place: usize, deciding: Option<usize>) -> Verdict {
    let limit = &said.limits[place];
    let us = |ms: u64| ms.saturating_mul(1_000);
    let outcome = match limit.retry_after_ms {
        Some(ms) => Outcome::Denied { retry_after_us: us(ms) },
        // What denies and has no time never passes.
        None if !said.allowed && deciding == Some(place) => Outcome::Denied { retry_after_us: NEVER_US },
        None => Outcome::Allowed,
    };
    Verdict { outcome, remaining: limit.remaining, reset_after_us: us(limit.reset_after_ms) }
}

/// A rule that stands for the service's, for its names and numbers. The algorithm is not told.
fn rule(limit: &SaidLimit, window_s: Option<u64>) -> RuleEntry {
    // A window of nothing, or of more than any limit has, is none.
    let unit = limit.name.rsplit('/').next().unwrap_or_default();
    let candidates = [window_s.map(Window::seconds), Window::named(unit), Some(Window::seconds(1))];
    let of_window = |window| Limit::new(Algorithm::FixedWindow, limit.limit.min(MAX_COUNT), window).ok();
    let numbers = candidates.into_iter().flatten().find_map(of_window);
    let numbers = numbers.into_iter().map(|limit_numbers| LimitEntry {
        name: limit.name.as_str().into(),
        given_name: None,
        limit: limit_numbers,
        salt: 0,
        number: 0,
    });
    RuleEntry { limits: numbers.collect(), ..RuleEntry::bare(&limit.rule, Key::NONE) }
}

/// The candidates in `RateLimit-Policy: "a:b";q=100;w=60, …`. Names have neither commas nor semicolons.
fn windows_s(policies: &str) -> Vec<Option<u64>> {
    let window = |policy: &str| policy.split(';').find_map(|part| part.strip_prefix("w=")?.parse().ok());
    policies.split(", ").map(window).collect()
}
