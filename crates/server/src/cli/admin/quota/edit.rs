//! The changes of `quota set`.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};
use tidegate::rules::file::micros;

use super::super::Outcome;
use super::super::failure::Failure;
use super::super::when;
use super::to_body;

const UNITS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

/// The members that, with the window, identify an override: another one with the same values replaces it.
const IDENTITY: [&str; 4] = ["domain", "descriptor", "limit", "effective_at"];

/// The flags of `quota set`.
#[derive(Args, Debug)]
#[group(id = "edit", multiple = true)]
pub(super) struct Edit {
    /// The tier of the tenant, which must be defined in the rules.
    #[arg(long, conflicts_with = "no_tier")]
    tier: Option<String>,
    /// Remove the tier of the tenant.
    #[arg(long)]
    no_tier: bool,
    /// An override in short form: `DESCRIPTOR=REQUESTS/UNIT` or `DESCRIPTOR=unlimited`; without a descriptor, for the
    /// tenant's own rule. Can be given several times.
    #[arg(long = "override", value_name = "TEXT", value_parser = ShortOverride::parse)]
    short: Vec<ShortOverride>,
    /// The number of requests; 0 blocks the tenant. Needs --per.
    #[arg(long, value_name = "N", requires = "per")]
    requests: Option<u64>,
    /// The window: second, minute, hour, day, week, month, year, or a duration such as 90s.
    #[arg(long, value_name = "UNIT", requires = "requests")]
    per: Option<String>,
    /// Allow everything.
    #[arg(long, conflicts_with_all = ["requests", "burst", "algorithm"])]
    unlimited: bool,
    /// The burst of a bucket algorithm.
    #[arg(long, value_name = "N", requires = "requests")]
    burst: Option<u64>,
    /// The algorithm, if it is not that of the rule.
    #[arg(long, value_name = "NAME", requires = "requests")]
    algorithm: Option<String>,
    /// The descriptor of the override: `default` for the tenant's own rule, else `key:value`, or `key` for every value;
    /// several are joined by `|` [default: default]
    #[arg(long, value_name = "TEXT")]
    descriptor: Option<String>,
    /// The limit of the rule, if it has several.
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// The domain of the override [default: every domain]
    #[arg(long)]
    domain: Option<String>,
    /// When the override begins: a time, a date, or 12h for 12 hours from now [default: at once]
    #[arg(long, value_name = "TIME", value_parser = when::future)]
    effective_at: Option<Timestamp>,
    /// When the override ends [default: never]
    #[arg(long, value_name = "TIME", value_parser = when::future)]
    expires_at: Option<Timestamp>,
    /// Remove every override of this descriptor. Can be given several times.
    #[arg(long, value_name = "DESCRIPTOR")]
    remove: Vec<String>,
    /// Remove all other overrides.
    #[arg(long)]
    replace: bool,
}

impl Edit {
    /// Checks that the flags describe a change.
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

    /// Returns the body that changes a tenant as the flags describe.
    pub(super) fn apply(&self, before: Option<&Json>) -> Outcome<Json> {
        let mut body = before.map_or_else(|| json!({ "tier": null, "overrides": [] }), to_body);
        if let Some(tier) = &self.tier {
            body["tier"] = json!(tier);
        }
        if self.no_tier {
            body["tier"] = Json::Null;
        }
        let mut overrides: Vec<Json> = match body["overrides"].take() {
            Json::Array(items) if !self.replace => items.into_iter().map(without_read_only).collect(),
            _ => Vec::new(),
        };
        for descriptor in &self.remove {
            let count = overrides.len();
            overrides.retain(|item| item["descriptor"] != *descriptor);
            if overrides.len() == count && !self.replace {
                return Err(Failure::other(format!(
                    "there is no override of {descriptor:?}; `tidegate quota get` lists the overrides"
                )));
            }
        }
        for new in self.overrides_of_flags() {
            let same = |item: &Json| {
                IDENTITY.iter().all(|name| item[*name] == new[*name]) && window_us(item) == window_us(&new)
            };
            match overrides.iter_mut().find(|item| same(item)) {
                Some(item) => *item = new,
                None => overrides.push(new),
            }
        }
        body["overrides"] = Json::Array(overrides);
        Ok(body)
    }

    /// Returns the overrides that the flags describe.
    fn overrides_of_flags(&self) -> Vec<Json> {
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

    /// Returns the common members of an override. Without numbers it is unlimited.
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

/// An override in short form.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShortOverride {
    descriptor: String,
    /// The number of requests and the window; `None` for unlimited.
    numbers: Option<(u64, String)>,
}

impl ShortOverride {
    fn parse(text: &str) -> Result<Self, String> {
        // A value may contain `=` and `/`; numbers do not.
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

/// Returns the window of an override in microseconds: `hour`, `1h` and `60m` are equal.
fn window_us(item: &Json) -> Option<u64> {
    let text = item["unit"].as_str().or_else(|| item["duration"].as_str())?;
    tidegate::Window::named(text).map_or_else(|| micros(text).ok(), |window| Some(window.period_us()))
}

/// Removes the read-only and empty members of an override.
pub(super) fn without_read_only(item: Json) -> Json {
    match item {
        Json::Object(mut members) => {
            members.remove("in_effect");
            members.remove("ended");
            members.retain(|_, value| !value.is_null());
            Json::Object(members)
        }
        other => other,
    }
}

/// Parses a file in the format of `quota get -o json` or of the API.
pub(super) fn whole(bytes: &[u8]) -> Outcome<Json> {
    let body: Json = serde_json::from_slice(bytes).map_err(|error| {
        Failure::other(format!("the file is not JSON: {error}; see `tidegate quota set --help`"))
    })?;
    let mut body = if body["quotas"].is_object() { to_body(&body) } else { body };
    if let Json::Array(overrides) = body["overrides"].take() {
        body["overrides"] = overrides.into_iter().map(without_read_only).collect();
    } else if let Json::Object(members) = &mut body {
        members.remove("overrides");
    }
    Ok(body)
}
