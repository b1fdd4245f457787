//! Parses the rate limits in a response, and computes how long the next request waits.
//!
//! `vectors/pacing.json` defines both; `vectors/README.md` has the full rules.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, StatusCode};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use super::moments;
use crate::names;

/// Less than this fraction of a limit, as a divisor, counts as little.
const LITTLE_PART: u64 = 5;

/// Less than this many units count as little if no limit is stated. What is left is spread as if it were at least
/// this.
const LITTLE: u64 = 10;

/// The remaining units are spread only over at least this time: a shorter time can be waited for.
const SPREAD_FROM: Duration = Duration::from_secs(30);

/// The rate limits in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Units per window of the tightest limit.
    pub limit: Option<u64>,
    /// Units left of the tightest limit.
    pub remaining: Option<u64>,
    /// The time until more of the tightest limit is available.
    pub reset_after: Option<Duration>,
    /// The time after which to retry.
    pub retry_after: Option<Duration>,
    /// Every limit that has a name.
    pub policies: Vec<Policy>,
}

/// One limit in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The name of the limit.
    pub name: String,
    /// Units per window.
    pub limit: Option<u64>,
    /// The length of the window.
    pub window: Option<Duration>,
    /// Units left.
    pub remaining: Option<u64>,
    /// The time until more units are available.
    pub reset_after: Option<Duration>,
}

/// Parses the headers of every known family. Headers that cannot be parsed are ignored.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, StatusCode};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", r#""api_key:steady";r=0;t=30"#.parse()?);
/// let learned = tidegate_middleware::pacing::learn(StatusCode::OK, &headers, SystemTime::now());
/// assert_eq!(learned.remaining, Some(0));
/// assert_eq!(learned.delay(Duration::from_secs(10)), Duration::from_secs(20)); // until there is more
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn learn(_status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Learned {
    let learned = by_structured_fields(headers).or_else(|| by_members(headers));
    let learned = learned.or_else(|| FAMILIES.iter().find_map(|family| by_family(headers, family, now)));
    let learned = learned.or_else(|| by_resources(headers, "x-ratelimit", false, now));
    let learned = learned.or_else(|| by_resources(headers, "anthropic-ratelimit", true, now));
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let retry_after = moments::retry_after(text("retry-after"), text("retry-after-ms"), now);
    Learned { retry_after, ..learned.unwrap_or_default() }
}

impl Learned {
    /// Returns how long the next request must wait if `elapsed` has passed since the response.
    pub fn delay(&self, elapsed: Duration) -> Duration {
        self.told_wait().or_else(|| self.spread()).unwrap_or_default().saturating_sub(elapsed)
    }

    /// Returns whether a response with this status is a denial by a rate limit. GitHub denies with status 403, and
    /// states either how long to wait or that nothing is left.
    pub fn is_denial(&self, status: StatusCode) -> bool {
        match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE => self.retry_after.is_some(),
            StatusCode::FORBIDDEN => self.retry_after.is_some() || self.remaining == Some(0),
            _ => false,
        }
    }

    /// Returns whether the response states any limit.
    pub(super) fn tells_something(&self) -> bool {
        let Self { limit, remaining, reset_after, retry_after, policies } = self;
        limit.or(*remaining).is_some() || reset_after.or(*retry_after).is_some() || !policies.is_empty()
    }

    /// Returns the wait that the response requires: `Retry-After`, or the time until more is available if nothing is
    /// left.
    pub(super) fn told_wait(&self) -> Option<Duration> {
        self.retry_after.or_else(|| self.reset_after.filter(|_| self.remaining == Some(0)))
    }

    /// Returns how far apart requests start if little is left for a long time.
    pub(super) fn spread(&self) -> Option<Duration> {
        let left = self.remaining.filter(|left| *left > 0)?;
        let reset = self.reset_after.filter(|reset| *reset >= SPREAD_FROM)?;
        let little = self.limit.map_or(left < LITTLE, |limit| left.saturating_mul(LITTLE_PART) < limit);
        let nanos = reset.as_nanos() / u128::from(left.max(LITTLE));
        little.then(|| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Returns the window of the policy that the limit, the remaining units and the reset come from.
    pub(super) fn window(&self) -> Option<Duration> {
        let same = |policy: &&Policy| {
            let of_policy = (policy.limit, policy.remaining, policy.reset_after);
            of_policy == (self.limit, self.remaining, self.reset_after)
        };
        self.policies.iter().find(same)?.window
    }
}

/// Parses `RateLimit` and `RateLimit-Policy` as in draft 11.
fn by_structured_fields(headers: &HeaderMap) -> Option<Learned> {
    let left = named_items(headers, &names::RATELIMIT).filter(|items| !items.is_empty())?;
    let mut policies: Vec<Policy> = Vec::new();
    for (name, item) in named_items(headers, &names::RATELIMIT_POLICY).unwrap_or_default() {
        let (limit, window) = (parameter(&item, "q"), parameter(&item, "w").map(Duration::from_secs));
        policies.push(Policy { name, limit, window, ..Policy::default() });
    }
    for (name, item) in left {
        let (remaining, reset_after) =
            (parameter(&item, "r"), parameter(&item, "t").map(Duration::from_secs));
        match policies.iter_mut().find(|policy| policy.name == name) {
            Some(policy) => (policy.remaining, policy.reset_after) = (remaining, reset_after),
            None => policies.push(Policy { name, remaining, reset_after, ..Policy::default() }),
        }
    }
    let told = policies.iter().filter(|policy| policy.remaining.is_some());
    let tightest = told.reduce(|least, next| {
        let tighter = (next.remaining, std::cmp::Reverse(next.reset_after));
        if tighter < (least.remaining, std::cmp::Reverse(least.reset_after)) { next } else { least }
    });
    let Policy { limit, remaining, reset_after, .. } = tightest.cloned().unwrap_or_default();
    Some(Learned { limit, remaining, reset_after, retry_after: None, policies })
}

/// Returns the named items of a list, or `None` if the header is not a list.
fn named_items(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<(String, Item)>> {
    let list: List = Parser::new(&joined(headers, name)?).parse().ok()?;
    let named = list.into_iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => match &item.bare_item {
            BareItem::String(name) => Some((name.as_str().to_owned(), item)),
            BareItem::Token(name) => Some((name.as_str().to_owned(), item)),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    });
    Some(named.collect())
}

fn parameter(item: &Item, name: &str) -> Option<u64> {
    item.params.get(name).and_then(whole)
}

fn whole(item: &BareItem) -> Option<u64> {
    match item {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    }
}

/// Parses `RateLimit: limit=100, remaining=5, reset=10`, as in draft 07.
fn by_members(headers: &HeaderMap) -> Option<Learned> {
    let members: Dictionary = Parser::new(&joined(headers, &names::RATELIMIT)?).parse().ok()?;
    let member = |name: &str| match members.get(name)? {
        ListEntry::Item(item) => whole(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    let (limit, remaining) = (member("limit"), member("remaining"));
    let reset_after = member("reset").map(Duration::from_secs);
    told(Learned { limit, remaining, reset_after, ..Learned::default() })
}

/// The names of the headers for the limit, the remaining units and the reset.
type Family = [&'static str; 3];

const FAMILIES: [Family; 3] = [
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
    ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"],
];

fn by_family(headers: &HeaderMap, [limit, remaining, reset]: &Family, now: SystemTime) -> Option<Learned> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    // Policies may follow the limit.
    let first = |text: &str| text.split([',', ';']).next().and_then(moments::whole);
    let reset_after = text(reset).and_then(|text| moments::reset_after(text, now));
    let (limit, remaining) = (text(limit).and_then(first), text(remaining).and_then(moments::whole));
    told(Learned { limit, remaining, reset_after, ..Learned::default() })
}

/// The resources that the APIs of language models count. A request takes one of `requests`, and some of the others.
const RESOURCES: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];

/// Parses `x-ratelimit-limit-requests` (as `OpenAI` sends it) or `anthropic-ratelimit-requests-limit`. Each resource
/// with any value becomes a policy. The resource of which nothing is left decides, or the one with the longest wait
/// if there are several. Otherwise `requests` decides, because the tokens of a request are not known in advance.
fn by_resources(headers: &HeaderMap, prefix: &str, resource_first: bool, now: SystemTime) -> Option<Learned> {
    let mut policies = Vec::new();
    for resource in RESOURCES {
        let text = |what: &str| {
            let (first, second) = if resource_first { (resource, what) } else { (what, resource) };
            let name = format!("{prefix}-{first}-{second}");
            headers.get(name)?.to_str().ok()
        };
        let (limit, remaining) = (text("limit"), text("remaining"));
        let (limit, remaining) = (limit.and_then(moments::whole), remaining.and_then(moments::whole));
        let reset_after = text("reset").and_then(|text| moments::reset_after(text, now));
        if limit.is_some() || remaining.is_some() || reset_after.is_some() {
            policies.push(Policy { name: resource.to_owned(), limit, window: None, remaining, reset_after });
        }
    }
    let used_up = policies.iter().filter(|policy| policy.remaining == Some(0));
    let longest = used_up.reduce(|most, next| if next.reset_after > most.reset_after { next } else { most });
    let counts = longest.or_else(|| policies.iter().find(|policy| policy.name == RESOURCES[0]));
    let Policy { limit, remaining, reset_after, .. } = counts.cloned().unwrap_or_default();
    let found = !policies.is_empty();
    found.then_some(Learned { limit, remaining, reset_after, retry_after: None, policies })
}

fn told(learned: Learned) -> Option<Learned> {
    let Learned { limit, remaining, reset_after, .. } = &learned;
    (limit.is_some() || remaining.is_some() || reset_after.is_some()).then_some(learned)
}

/// Returns the values of all lines of a header as one list.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Option<Vec<&str>> = headers.get_all(name).iter().map(|value| value.to_str().ok()).collect();
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join(", "))
}
