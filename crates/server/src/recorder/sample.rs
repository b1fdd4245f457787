//! A copy of a decision, small enough to wait for the control runtime.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate::{Crossing, Decision, LimitStatus, Micros, Request, RuleOutcome, RuleResult, Source};
use tidegate_core::{Key, KeySeed};

use crate::request_id::RequestId;

/// Bytes of a key that are shown; the fingerprint is of the whole key.
pub(crate) const SHOWN_BYTES: usize = 256;
/// Bytes of texts that a sample keeps of the whole request, to explain a denial later.
const REQUEST_BYTES: usize = 2048;

/// The descriptors of a request: entries and cost.
pub(crate) type Descriptors = Vec<(Vec<(String, String)>, u64)>;

/// A copy of a decision.
pub(super) struct Sample {
    pub(super) at: Micros,
    /// The number of decisions that it stands for; 0 if it was taken for its crossings alone.
    pub(super) weight: u32,
    pub(super) front_end: &'static str,
    /// The ID of the request, if it was denied and has one.
    pub(super) request_id: Option<Box<str>>,
    pub(super) source: Source,
    pub(super) domain: Box<str>,
    pub(super) rules: Vec<SampledRule>,
    /// Percentages that limits passed, each with its rule.
    pub(super) crossings: Vec<(SampledRule, u8)>,
    /// The request, if it was denied and is short.
    pub(super) request: Option<Descriptors>,
}

/// The sampled result of one rule.
#[derive(Clone)]
pub(super) struct SampledRule {
    pub(super) rule: Box<str>,
    pub(super) key: Key,
    /// The key as text; `None` if the rule hides its keys.
    pub(super) text: Option<Box<str>>,
    pub(super) tenant: Option<Box<str>>,
    pub(super) tier: Option<Box<str>>,
    pub(super) cost: u64,
    pub(super) result: RuleResult,
    pub(super) limit: SampledLimit,
    /// Whether a denial counts as having reached 100 %.
    pub(super) warns_at_limit: bool,
}

/// The status of the limit that decided for the rule.
#[derive(Clone)]
pub(super) struct SampledLimit {
    pub(super) name: Box<str>,
    /// The numbers as text; empty if the rule allowed.
    pub(super) text: Box<str>,
    pub(super) shadow: bool,
    pub(super) used: u64,
    pub(super) of: u64,
    pub(super) window_us: u64,
    pub(super) reset_after: Duration,
    pub(super) retry_after: Option<Duration>,
}

impl Sample {
    pub(super) fn new(
        seed: KeySeed,
        (at, weight): (Micros, u32),
        (front_end, id): (&'static str, RequestId<'_>),
        request: &Request<'_>,
        decision: &Decision,
        crossed: bool,
    ) -> Self {
        let of_rule = |outcome: &RuleOutcome<'_>| SampledRule::new(seed, request.domain(), outcome);
        let rules: Vec<_> = match weight {
            0 => Vec::new(),
            // What cost nothing was a question.
            _ => decision
                .outcomes(request)
                .filter(|outcome| outcome.cost > 0)
                .map(|outcome| of_rule(&outcome))
                .collect(),
        };
        let of_crossing = |Crossing { outcome, percent }: Crossing<'_>| (of_rule(&outcome), percent);
        let crossings = if crossed {
            decision.crossings(request).into_iter().map(of_crossing).collect()
        } else {
            Vec::new()
        };
        let denied = rules.iter().any(|rule| rule.result != RuleResult::Allowed);
        Self {
            at,
            weight,
            front_end,
            request_id: denied.then(|| id.text()).flatten(),
            source: decision.source(),
            domain: request.domain().into(),
            request: denied.then(|| short(request)).flatten(),
            rules,
            crossings,
        }
    }
}

impl SampledRule {
    fn new(seed: KeySeed, domain: &str, outcome: &RuleOutcome<'_>) -> Self {
        let RuleOutcome { rule, entries, hide_keys, limit, .. } = *outcome;
        let texts = entries.iter().flat_map(|(key, value)| [*key, *value]);
        let shown = |text: &str| text[..text.floor_char_boundary(SHOWN_BYTES)].into();
        Self {
            rule: rule.into(),
            key: seed.texts([domain, rule].into_iter().chain(texts)),
            text: (!hide_keys).then(|| key_text(entries)),
            tenant: outcome.tenant.filter(|_| !hide_keys).map(shown),
            tier: outcome.tier.map(Into::into),
            cost: outcome.cost,
            result: outcome.result,
            limit: SampledLimit::new(&limit),
            warns_at_limit: outcome.warn_at.last() == Some(&100),
        }
    }
}

impl SampledLimit {
    fn new(status: &LimitStatus<'_>) -> Self {
        let of = status.limit.burst();
        Self {
            name: status.name.into(),
            text: if status.allowed { Box::default() } else { status.limit.to_string().into() },
            shadow: status.shadow,
            used: of.saturating_sub(status.remaining),
            of,
            window_us: status.limit.period_us(),
            reset_after: status.reset_after,
            retry_after: status.retry_after,
        }
    }
}

/// Returns `key=value/key=value`, cut to the bytes that are shown.
fn key_text(entries: &[(&str, &str)]) -> Box<str> {
    let mut text = String::new();
    for (index, (key, value)) in entries.iter().enumerate() {
        let slash = if index == 0 { "" } else { "/" };
        let room = SHOWN_BYTES.saturating_sub(text.len());
        // Writing to a string does not fail.
        let _ = write!(text, "{slash}{key}={}", &value[..value.floor_char_boundary(room)]);
        if text.len() >= SHOWN_BYTES {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
            break;
        }
    }
    text.into()
}

/// Returns a copy of a request, if it is short and has no limits of its own.
fn short(request: &Request<'_>) -> Option<Descriptors> {
    let mut bytes = 0;
    let mut descriptors = Vec::new();
    for (index, (entries, cost)) in request.descriptors().enumerate() {
        bytes += entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if bytes > REQUEST_BYTES || request.limits_of(index).is_some() {
            return None;
        }
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        descriptors.push((entries.iter().map(owned).collect(), cost));
    }
    Some(descriptors)
}
