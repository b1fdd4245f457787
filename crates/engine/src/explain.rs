//! Explains a decision: which rules matched and how, which limits applied, and what they had left before and would
//! have left after.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_core::{NEVER_US, Outcome, Verdict};
use tidegate_stores::{Charge, Force, Intent, Verdicts};

use crate::decision::{Charged, Item, Source};
use crate::limiter::Limiter;
use crate::plan::{Charges, Plan, Scope, replacements};
use crate::request::{Entry, Request};
use crate::rules::tree::{DomainTree, RuleEntry, RuleSet, Step};

/// The explanation of a decision. It can be formatted as text and serialized.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Explanation {
    /// The domain of the request.
    pub domain: String,
    /// Whether the domain has rules.
    pub domain_found: bool,
    /// How each descriptor was matched against the rules.
    pub descriptors: Vec<ExplainedDescriptor>,
    /// Whether the request would be allowed.
    pub allowed: bool,
    /// The deciding limit, as `rule (limit)`.
    pub decided_by: Option<String>,
}

/// How one descriptor was matched against the rules.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExplainedDescriptor {
    /// The entries, and what each of them matched.
    pub entries: Vec<ExplainedEntry>,
    /// Why these limits apply, or why none do.
    pub why: String,
    /// The tenant, if the domain has a tenant key.
    pub tenant: Option<String>,
    /// The tier of the tenant.
    pub tier: Option<String>,
    /// The limits that apply.
    pub limits: Vec<ExplainedLimit>,
    /// Limits that do not apply because another rule replaces them, each with that rule.
    pub replaced: Vec<String>,
}

/// How one entry was matched.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExplainedEntry {
    /// The key of the entry.
    pub key: String,
    /// The value of the entry.
    pub value: String,
    /// The rule that the entry matched and how, or why it matched none.
    pub matched: String,
}

/// The state of one limit, and its verdict.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExplainedLimit {
    /// The rule of the limit.
    pub rule: String,
    /// The name of the limit.
    pub name: String,
    /// The numbers of the limit, as text.
    pub limit: String,
    /// Where the numbers come from: `rule`, `tier pro` or `override`.
    pub from: String,
    /// The units that the request takes.
    pub cost: u64,
    /// Units left before the request.
    pub remaining_before: u64,
    /// Units left after the request.
    pub remaining_after: u64,
    /// Whether this limit alone would allow the request.
    pub allowed: bool,
    /// Microseconds until this limit would allow the same request; absent if it does now, or never will.
    pub retry_after_us: Option<u64>,
    /// Why the limit is not enforced; absent if it is.
    pub not_enforced: Option<String>,
    /// Whether this is the deciding limit.
    pub decides: bool,
}

impl Limiter {
    /// Explains the decision that [`Limiter::check`] would make, without charging anything.
    ///
    /// ```
    /// # use tidegate::{Domain, Limiter, Request, Rule, per_minute};
    /// # let limiter = Limiter::builder().domain(Domain::new("api").rule(Rule::by("user").limit(per_minute(10)))).build()?;
    /// let explanation = limiter.explain(&Request::new("api", [("user", "ann")]));
    /// assert_eq!(explanation.decided_by.as_deref(), Some("user (minute)"));
    /// println!("{explanation}");
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        let mut charged = Charged::new(self.inner.rules.load());
        let plan = Plan::new(&mut charged, request, Scope::RATES);
        let mut verdicts = Verdicts::new();
        let both = peeks_and_charges(&plan.charges);
        self.inner.backend.memory.settle_now(&both, Intent::Look, &mut verdicts);
        let before = conclude_with(plan, verdicts, Source::Memory);
        drop(both);
        explained_decision(&charged, &before, request)
    }

    /// Explains the decision that [`Limiter::check`] would make with the shared store, if there is one, without
    /// charging anything. If the store fails, uses this node's share of the limits.
    pub async fn explain_anywhere(&self, request: &Request<'_>) -> Explanation {
        let mut charged = Charged::new(self.inner.rules.load());
        let plan = self.inner.backend.plan(&mut charged, request, Scope::RATES);
        let both = peeks_and_charges(&plan.charges);
        let (verdicts, source) = self.inner.backend.look(&both).await;
        let before = conclude_with(plan, verdicts, source);
        drop(both);
        explained_decision(&charged, &before, request)
    }
}

/// Returns two charges per limit, a peek and then the charge itself. Settled in one call that takes nothing, they
/// show what each limit has before and after the request, at the same time.
fn peeks_and_charges<'r>(charges: &Charges<'r>) -> Charges<'r> {
    let peeks = charges.iter().map(|charge| Charge { cost: 0, force: Force::Shadow, ..*charge });
    peeks.chain(charges.iter().copied()).collect()
}

/// Concludes a plan with the verdicts of [`peeks_and_charges`]. Returns the cost of each charge, and the verdict
/// before the charge.
fn conclude_with(mut plan: Plan<'_>, mut verdicts: Verdicts, source: Source) -> Vec<(u64, Verdict)> {
    let after: Verdicts = verdicts.drain(plan.charges.len()..).collect();
    plan.conclude(&after, source);
    plan.charges.iter().map(|charge| charge.cost).zip(verdicts).collect()
}

/// Returns the explanation of a decision that charged nothing.
fn explained_decision(charged: &Charged, before: &[(u64, Verdict)], request: &Request<'_>) -> Explanation {
    let mut explanation = story(charged.rules(), request);
    explanation.tell(charged, before);
    explanation
}

/// Returns the explanation without limits: what each entry matched.
fn story(rules: &RuleSet, request: &Request<'_>) -> Explanation {
    let domain = rules.domain(request.domain());
    let descriptors = request.descriptors().enumerate().map(|(index, (entries, _))| match domain {
        Some(_) if request.limits_of(index).is_some() => ExplainedDescriptor {
            entries: entries
                .iter()
                .map(|entry| explained(*entry, "not looked up: the request brings its limits".to_owned()))
                .collect(),
            why: "the request brings limits of its own".to_owned(),
            tenant: None,
            tier: None,
            limits: Vec::new(),
            replaced: Vec::new(),
        },
        Some(domain) => descriptor(rules, domain, entries, request),
        None => ExplainedDescriptor {
            entries: entries.iter().map(|entry| explained(*entry, "nothing".to_owned())).collect(),
            why: "the domain has no rules, so no limit applies".to_owned(),
            tenant: None,
            tier: None,
            limits: Vec::new(),
            replaced: Vec::new(),
        },
    });
    let mut explanation = Explanation {
        domain: request.domain().to_owned(),
        domain_found: domain.is_some(),
        descriptors: descriptors.collect(),
        allowed: true,
        decided_by: None,
    };
    if let Some(domain) = domain.filter(|(_, domain)| domain.has_replaces) {
        explanation.tell_replaced(rules, domain, request);
    }
    explanation
}

fn explained((key, value): Entry<'_>, matched: String) -> ExplainedEntry {
    ExplainedEntry { key: key.to_owned(), value: value.to_owned(), matched }
}

fn descriptor<'a>(
    rules: &RuleSet,
    (number, domain): (u32, &DomainTree),
    entries: &[Entry<'a>],
    request: &Request<'a>,
) -> ExplainedDescriptor {
    let mut node = Some(&domain.nodes[0]);
    let mut explained_entries = Vec::with_capacity(entries.len());
    let mut last_rule = None;
    for (key, value) in entries {
        let matched = match node {
            None => "not looked up: the entry before it matched nothing".to_owned(),
            Some(at) => {
                match at.branch(key, rules.seed).map(|branch| branch.step(value, rules.seed.text(value).mark))
                {
                    None => format!("nothing: no rule for key {key:?} here"),
                    Some(None) => format!("nothing: no rule for this value of {key:?}"),
                    Some(Some((next, step))) => {
                        last_rule = domain.rules.get(next as usize - 1);
                        node = Some(&domain.nodes[next as usize]);
                        explained_entries
                            .push(explained((key, value), format!("rule {} {}", id(last_rule), how(step))));
                        continue;
                    }
                }
            }
        };
        node = None;
        explained_entries.push(explained((key, value), matched));
    }
    let tenant = domain.tenant(entries, request);
    let tier = tenant.and_then(|tenant| rules.tier_name(domain, tenant));
    let why = match (node, last_rule) {
        (Some(_), Some(rule)) => {
            let hit = rules.find_for((number, domain), entries, tenant);
            let lifted = hit.is_some_and(|hit| !hit.has_limits(rules.seed));
            let by_override = hit.is_some_and(|hit| hit.own.is_some());
            match tier {
                _ if rule.limits.is_empty() || !lifted => why_leaf(domain, rule, entries.len()),
                Some(tier) if !by_override => format!("rule {} has no limits for tier {tier}", rule.id),
                _ => format!("rule {} has no limits for this tenant, by its overrides", rule.id),
            }
        }
        (Some(_), None) => "the descriptor has no entries".to_owned(),
        (None, Some(_)) if domain.hierarchical => {
            "not all entries matched, but the domain is hierarchical: rules on the way apply".to_owned()
        }
        (None, _) => "not all entries matched a rule, so no limit applies".to_owned(),
    };
    ExplainedDescriptor {
        entries: explained_entries,
        why,
        tenant: tenant.map(str::to_owned),
        tier: tier.map(str::to_owned),
        limits: Vec::new(),
        replaced: Vec::new(),
    }
}

/// Returns why the limits of the last entry's rule apply, or why there are none.
fn why_leaf(domain: &DomainTree, rule: &RuleEntry, entries: usize) -> String {
    let id = &rule.id;
    if rule.unlimited {
        format!("rule {id} is unlimited")
    } else if rule.limits.is_empty() && rule.concurrency.is_some() {
        format!("rule {id} limits holders only, which acquire takes")
    } else if rule.limits.is_empty() {
        format!("rule {id} has no limits of its own")
    } else if domain.hierarchical && entries > 1 {
        format!("rule {id} is the last entry's, and the domain is hierarchical: rules on the way apply too")
    } else {
        format!("rule {id} is the last entry's")
    }
}

fn id(rule: Option<&RuleEntry>) -> &str {
    rule.map_or("", |rule| &rule.id)
}

fn how(step: Step) -> &'static str {
    match step {
        Step::Exact => "by this very value",
        Step::Pattern => "by a pattern",
        Step::Any => "for any value",
    }
}

impl Explanation {
    /// Adds the limits that do not apply because other rules replace them.
    fn tell_replaced(&mut self, rules: &RuleSet, domain: (u32, &DomainTree), request: &Request<'_>) {
        let replacements = replacements(rules, domain, request);
        let mut hits = Vec::new();
        rules.find(domain, request, &mut hits);
        for hit in hits {
            hit.each_limit(rules.seed, |limit| {
                if let Some(by) = limit.entry.replaced_by(&replacements) {
                    let text = format!("{} ({}), by rule {by}", hit.rule.id, limit.entry.name);
                    self.descriptors[usize::from(hit.descriptor)].replaced.push(text);
                }
            });
        }
    }

    /// Adds the limits and their verdicts. `before` has the cost of each charge, and the verdict before it.
    fn tell(&mut self, charged: &Charged, before: &[(u64, Verdict)]) {
        self.allowed = charged.summary.allowed;
        let by = charged.deciding().map(std::ptr::from_ref::<Item>);
        for (item, (cost, before)) in charged.items.iter().zip(before) {
            let status = charged.status(item);
            let decides = by == Some(std::ptr::from_ref(item));
            if decides {
                self.decided_by = Some(format!("{} ({})", status.rule, status.name));
            }
            let after = &item.verdict;
            self.descriptors[usize::from(item.descriptor)].limits.push(ExplainedLimit {
                rule: status.rule.to_owned(),
                name: status.name.to_owned(),
                limit: status.limit.to_string(),
                from: charged.origin(item),
                cost: *cost,
                remaining_before: before.remaining,
                remaining_after: after.remaining,
                allowed: status.allowed,
                retry_after_us: match after.outcome {
                    Outcome::Denied { retry_after_us } if retry_after_us != NEVER_US => Some(retry_after_us),
                    _ => None,
                },
                not_enforced: charged.not_enforced(item),
                decides,
            });
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.allowed { "allowed" } else { "denied" };
        let by = self.decided_by.as_deref().map_or(String::new(), |by| format!(" by {by}"));
        writeln!(f, "{word}{by}, domain {}", self.domain)?;
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            writeln!(f, "descriptor {}: {}", index + 1, descriptor.why)?;
            for entry in &descriptor.entries {
                writeln!(f, "  {}={}  ->  {}", entry.key, entry.value, entry.matched)?;
            }
            if let Some(tenant) = &descriptor.tenant {
                writeln!(f, "  tenant {tenant}, tier {}", descriptor.tier.as_deref().unwrap_or("none"))?;
            }
            for limit in &descriptor.limits {
                writeln!(f, "  {limit}")?;
            }
            for replaced in &descriptor.replaced {
                writeln!(f, "  replaced: {replaced}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ExplainedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.decides { "*" } else { "-" };
        let word = if self.allowed { "allows" } else { "denies" };
        let from = if self.from == "rule" { String::new() } else { format!(" ({})", self.from) };
        write!(f, "{mark} {} ({}): {}{from}; {word} cost {}", self.rule, self.name, self.limit, self.cost)?;
        write!(f, ", {} left before, {} after", self.remaining_before, self.remaining_after)?;
        match self.retry_after_us {
            Some(us) => write!(f, ", retry after {:.1?}", std::time::Duration::from_micros(us))?,
            None if !self.allowed => write!(f, ", never fits")?,
            None => {}
        }
        match &self.not_enforced {
            Some(why) => write!(f, ", not enforced: {why}"),
            None => Ok(()),
        }
    }
}
