//! What `quota set` makes of a tenant.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};
use tidegate::rules::file::micros;

use super::super::Outcome;
use super::super::failure::Failure;
use super::super::when;
use super::puttable;

const UNITS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

/// What makes an override the same one, besides its window: another with these takes its place.
const IDENTITY: [&str; 4] = ["domain", "descriptor", "limit", "effective_at"];

/// The flags of a change.
#[derive(Args, Debug)]
#[group(id = "edit", multiple = true)]
pub(super) struct Edit {
    /// Its tier from now on; one that rules have.
    #[arg(long, conflicts_with = "no_tier")]
    tier: Option<String>,
    /// Take its tier away.
    #[arg(long)]
    no_tier: bool,
    /// An override in short: `DESCRIPTOR=REQUESTS/UNIT` or `DESCRIPTOR=unlimited`; without the descriptor,
    /// for the tenant's own rule. Can be given several times.
    #[arg(long = "override", value_name = "TEXT", value_parser = Short::parse)]
    short: Vec<Short>,
    /// How many requests; 0 blocks. Needs --per.
    #[arg(long, value_name = "N", requires = "per")]
    requests: Option<u64>,
    /// In which time: second, minute, hour, day, week, month, year, or a length such as 90s.
    #[arg(long, value_name = "UNIT", requires = "requests")]
    per: Option<String>,
    /// No limit at all.
    #[arg(long, conflicts_with_all = ["requests", "burst", "algorithm"])]
    unlimited: bool,
    /// The most at once, for buckets.
    #[arg(long, value_name = "N", requires = "requests")]
    burst: Option<u64>,
    /// Another algorithm than the rule's.
    #[arg(long, value_name = "NAME", requires = "requests")]
    algorithm: Option<String>,
    /// What the override is for: `default` is the tenant's own rule, else `key:value`, or `key` for every
    /// value; several joined by `|` [default: default]
    #[arg(long, value_name = "TEXT")]
    descriptor: Option<String>,
    /// Which of the rule's limits, if it has several.
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// The domain it is for [default: every domain]
    #[arg(long)]
    domain: Option<String>,
    /// When the override begins: a time, a date, or 12h from now [default: at once]
    #[arg(long, value_name = "TIME", value_parser = when::future)]
    effective_at: Option<Timestamp>,
    /// When the override ends [default: never]
    #[arg(long, value_name = "TIME", value_parser = when::future)]
    expires_at: Option<Timestamp>,
    /// Remove every override of this descriptor; can be given several times.
    #[arg(long, value_name = "DESCRIPTOR")]
    remove: Vec<String>,
    /// Remove every override that is not given here.
    #[arg(long)]
    replace: bool,
}

impl Edit {
    /// Whether the flags say something.
    pub(super) fn check(&self, file: bool) -> Outcome {
        let of_any = self.domain.is_some() || self.effective_at.is_some() || self.expires_at.is_some();
        let of_one = self.burst.is_some() || self.descriptor.is_some() || self.limit.is_some();
        let one = self.requests.is_some() || self.unlimited;
        if !one && (of_one || (of_any && self.short.is_empty())) {
            return Err(Failure::usage(
                "an override needs its numbers: give --requests and --per, or --unlimited",
            ));
        }
        let nothing = self.tier.is_none()
            && !self.no_tier
            && !one
            && self.short.is_empty()
            && self.remove.is_empty()
            && !self.replace;
        if nothing && !file {
            return Err(Failure::usage(
                "nothing to set: give --tier, --requests with --per, --unlimited, --override, --remove, or -f FILE",
            ));
        }
        Ok(())
    }

    /// What to put in place of what there is.
    pub(super) fn apply(&self, before: Option<&Json>) -> Outcome<Json> {
        let mut body = before.map_or_else(|| json!({ "tier": null, "overrides": [] }), puttable);
        if let Some(tier) = &self.tier {
            body["tier"] = json!(tier);
        }
        if self.no_tier {
            body["tier"] = Json::Null;
        }
        let mut overrides: Vec<Json> = match body["overrides"].take() {
            Json::Array(items) if !self.replace => items.into_iter().map(kept).collect(),
            _ => Vec::new(),
        };
        for descriptor in &self.remove {
            let count = overrides.len();
            overrides.retain(|item| item["descriptor"] != *descriptor);
            if overrides.len() == count && !self.replace {
                return Err(Failure::other(format!(
                    "there is no override of {descriptor:?}; `tidegate quota get` shows those there are"
                )));
            }
        }
        for wanted in self.wanted() {
            let same = |item: &Json| {
                IDENTITY.iter().all(|name| item[*name] == wanted[*name])
                    && window_us(item) == window_us(&wanted)
            };
            match overrides.iter_mut().find(|item| same(item)) {
                Some(item) => *item = wanted,
                None => overrides.push(wanted),
            }
        }
        body["overrides"] = Json::Array(overrides);
        Ok(body)
    }

    /// The overrides that the flags describe.
    fn wanted(&self) -> Vec<Json> {
        let mut all = Vec::new();
        if self.requests.is_some() || self.unlimited {
            let numbers = self.requests.map(|requests| (requests, self.per.clone().unwrap_or_default()));
            let mut one = self.base(self.descriptor.as_deref().unwrap_or("default"), numbers.as_ref());
            let mut put =
                |name: &str, value: Option<Json>| one.extend(value.map(|value| (name.to_owned(), value)));
            put("limit", self.limit.as_ref().map(|limit| json!(limit)));
            put("burst", self.burst.map(|burst| json!(burst)));
            put("algorithm", self.algorithm.as_ref().map(|algorithm| json!(algorithm)));
            all.push(Json::Object(one));
        }
        all.extend(
            self.short.iter().map(|short| Json::Object(self.base(&short.descriptor, short.numbers.as_ref()))),
        );
        all
    }

    /// What every override has; no numbers are no limit.
    fn base(&self, descriptor: &str, numbers: Option<&(u64, String)>) -> Map<String, Json> {
        let mut base = Map::new();
        let mut put =
            |name: &str, value: Option<Json>| base.extend(value.map(|value| (name.to_owned(), value)));
        put("domain", self.domain.as_ref().map(|domain| json!(domain)));
        put("descriptor", Some(json!(descriptor)));
        match numbers {
            None => put("unlimited", Some(Json::Bool(true))),
            Some((requests, per)) => {
                put("requests_per_unit", Some(json!(requests)));
                put(if UNITS.contains(&per.as_str()) { "unit" } else { "duration" }, Some(json!(per)));
            }
        }
        put("effective_at", self.effective_at.map(|time| json!(time.to_string())));
        put("expires_at", self.expires_at.map(|time| json!(time.to_string())));
        base
    }
}

/// An override in short.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Short {
    descriptor: String,
    /// How many in which time; none is no limit.
    numbers: Option<(u64, String)>,
}

impl Short {
    fn parse(text: &str) -> Result<Self, String> {
        // A value may have `=` and `/` in it; numbers have not.
        let (descriptor, numbers) = text.rsplit_once('=').unwrap_or(("default", text));
        let wrong = || format!("must be DESCRIPTOR=500/minute or DESCRIPTOR=unlimited, got {text:?}");
        let numbers = if numbers == "unlimited" {
            None
        } else {
            let (requests, per) = numbers.split_once('/').ok_or_else(wrong)?;
            Some((requests.parse().map_err(|_| wrong())?, per.to_owned()))
        };
        if descriptor.is_empty() || numbers.as_ref().is_some_and(|(_, per)| per.is_empty()) {
            return Err(wrong());
        }
        Ok(Self { descriptor: descriptor.to_owned(), numbers })
    }
}

/// How long the window of an override is: `hour`, `1h` and `60m` are the same.
fn window_us(item: &Json) -> Option<u64> {
    let text = item["unit"].as_str().or_else(|| item["duration"].as_str())?;
    tidegate::Window::named(text).map_or_else(|| micros(text).ok(), |window| Some(window.period_us()))
}

/// An override as it was shown, without what cannot be put.
pub(super) fn kept(item: Json) -> Json {
    match item {
        Json::Object(mut members) => {
            members.remove("in_effect");
            members.retain(|_, value| !value.is_null());
            Json::Object(members)
        }
        other => other,
    }
}

/// A whole file, as `quota get -o json` prints it or as the API takes it.
pub(super) fn whole(bytes: &[u8]) -> Outcome<Json> {
    let body: Json = serde_json::from_slice(bytes).map_err(|error| {
        Failure::other(format!("the file is not JSON: {error}; see `tidegate quota set --help`"))
    })?;
    let mut body = if body["quotas"].is_object() { puttable(&body) } else { body };
    if let Json::Array(overrides) = body["overrides"].take() {
        body["overrides"] = overrides.into_iter().map(kept).collect();
    } else if let Json::Object(members) = &mut body {
        members.remove("overrides");
    }
    Ok(body)
}
