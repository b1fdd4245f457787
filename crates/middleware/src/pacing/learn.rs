//! What an answer says about limits, and how long the next request waits by it.
//!
//! `vectors/pacing.json` fixes both; its README says the rules in full.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, StatusCode};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use crate::names;

/// From here on a reset is a time in seconds since the epoch; what is less is seconds from now.
const EPOCH_S_FROM: u64 = 1_000_000_000;

/// From here on it is in milliseconds.
const EPOCH_MS_FROM: u64 = 1_000_000_000_000;

/// Less than this part of a limit is little.
const LITTLE_PART: u64 = 5;

/// Less than this is little where no limit is told.
const LITTLE: u64 = 10;

/// What an answer said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Units per window of the tightest limit.
    pub limit: Option<u64>,
    /// Units left of it.
    pub remaining: Option<u64>,
    /// Until there is more of it.
    pub reset_after: Option<Duration>,
    /// When to come back.
    pub retry_after: Option<Duration>,
    /// Every limit that has a name.
    pub policies: Vec<Policy>,
}

/// What an answer said about one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Units per window.
    pub limit: Option<u64>,
    /// The window.
    pub window: Option<Duration>,
    /// Units left.
    pub remaining: Option<u64>,
    /// Until there is more.
    pub reset_after: Option<Duration>,
}

/// Reads every family of headers; what cannot be read is as if it were not there.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, StatusCode};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", r#""api_key:steady";r=3;t=30"#.parse()?);
/// let learned = tidegate_middleware::pacing::learn(StatusCode::OK, &headers, SystemTime::now());
/// assert_eq!(learned.remaining, Some(3));
/// assert_eq!(learned.delay(Duration::ZERO), Duration::from_secs(10)); // three requests in thirty seconds
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn learn(_status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Learned {
    let learned = by_structured_fields(headers).or_else(|| by_members(headers));
    let learned = learned.or_else(|| FAMILIES.iter().find_map(|family| by_family(headers, family, now)));
    Learned { retry_after: retry_after(headers, now), ..learned.unwrap_or_default() }
}

impl Learned {
    /// How long the next request waits when so much time has gone by since.
    pub fn delay(&self, elapsed: Duration) -> Duration {
        let wait = self.retry_after.max(self.refill_wait()).max(self.spread());
        wait.unwrap_or_default().saturating_sub(elapsed)
    }

    /// Whether there is anything to go by.
    pub(super) fn tells_something(&self) -> bool {
        let Self { limit, remaining, reset_after, retry_after, policies: _ } = self;
        limit.or(*remaining).is_some() || reset_after.or(*retry_after).is_some()
    }

    /// The time until there is more, if nothing is left.
    fn refill_wait(&self) -> Option<Duration> {
        self.reset_after.filter(|_| self.remaining == Some(0))
    }

    /// What is left, spread over the time until there is more, if it is little.
    pub(super) fn spread(&self) -> Option<Duration> {
        let left = self.remaining.filter(|left| *left > 0)?;
        let little = self.limit.map_or(left < LITTLE, |limit| left.saturating_mul(LITTLE_PART) < limit);
        little.then_some(())?;
        let nanos = self.reset_after?.as_nanos() / u128::from(left);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// One unit's share of the window, if the limit that counts tells both.
    pub(super) fn pace(&self) -> Option<Duration> {
        let same = |policy: &&Policy| policy.limit == self.limit && policy.remaining == self.remaining;
        let policy = self.policies.iter().find(same)?;
        let units = u32::try_from(policy.limit?).unwrap_or(u32::MAX);
        policy.window?.checked_div(units)
    }
}

/// `RateLimit` and `RateLimit-Policy` as draft 11 has them.
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

/// The items of a list that have a name; `None` if it is no list.
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

/// `RateLimit: limit=100, remaining=5, reset=10`, as draft 07 had it.
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

/// The names of limit, what is left and when there is more.
type Family = [&'static str; 3];

const FAMILIES: [Family; 3] = [
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
    ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"],
];

fn by_family(headers: &HeaderMap, [limit, remaining, reset]: &Family, now: SystemTime) -> Option<Learned> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    // Policies may follow the limit.
    let first = |text: &str| text.split([',', ';']).next().and_then(number);
    let reset_after = text(reset).and_then(number).map(|reset| reset_after(reset, now));
    let (limit, remaining) = (text(limit).and_then(first), text(remaining).and_then(number));
    told(Learned { limit, remaining, reset_after, ..Learned::default() })
}

fn told(learned: Learned) -> Option<Learned> {
    let Learned { limit, remaining, reset_after, .. } = &learned;
    (limit.is_some() || remaining.is_some() || reset_after.is_some()).then_some(learned)
}

fn reset_after(reset: u64, now: SystemTime) -> Duration {
    let at = match reset {
        EPOCH_MS_FROM.. => Duration::from_millis(reset),
        EPOCH_S_FROM.. => Duration::from_secs(reset),
        _ => return Duration::from_secs(reset),
    };
    at.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// `Retry-After` in seconds or as a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// A whole number in decimal digits alone.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Several lines are one list.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Option<Vec<&str>> = headers.get_all(name).iter().map(|value| value.to_str().ok()).collect();
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join(", "))
}
