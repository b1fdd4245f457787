//! Queries a node and parses its response.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::super::Outcome;
use super::super::client::{Call, Client};
use super::super::output::{text, value_name};
use super::super::table::plain;
use super::{By, Shown, Window};

/// The lists between which one can change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Keys,
    Rules,
    Denials,
}

impl View {
    pub(super) const ALL: [Self; 3] = [Self::Keys, Self::Rules, Self::Denials];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Keys => "Keys",
            Self::Rules => "Rules",
            Self::Denials => "Denials",
        }
    }
}

/// The query: what to show.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) view: View,
    pub(super) by: By,
    pub(super) window: Window,
    /// Whether the keys of this node alone are shown.
    pub(super) node: bool,
    pub(super) paused: bool,
    domain: Option<String>,
    rule: Option<String>,
    limit: usize,
}

impl Query {
    pub(super) fn new(shown: Shown) -> Self {
        let Shown { by, window, domain, rule, limit, node, .. } = shown;
        Self { view: View::Keys, by, window, node, paused: false, domain, rule, limit }
    }

    /// Returns the call for the keys with the most decisions.
    pub(super) fn top_call(&self) -> Call {
        self.filtered(Call::get(&["top"]))
            .query("by", Some(value_name(&self.by)))
            .query("window", Some(value_name(&self.window)))
            .query("limit", Some(self.limit))
            .query("scope", self.node.then_some("node"))
    }

    fn call(&self) -> Call {
        match self.view {
            View::Keys => self.top_call(),
            View::Rules => Call::get(&["rules", "activity"]),
            View::Denials => self.filtered(Call::get(&["denials"])).query("limit", Some(self.limit.max(100))),
        }
    }

    /// Leaves out the rules that are not to be shown: the API lists them all.
    fn kept(&self, mut list: Json) -> Json {
        let wants =
            |wanted: &Option<String>, found: &Json| wanted.as_ref().is_none_or(|wanted| found == wanted);
        if let Some(rules) = list["rules"].as_array_mut() {
            rules.retain(|rule| wants(&self.domain, &rule["domain"]) && wants(&self.rule, &rule["rule"]));
            // Those that deny first; the API lists them by name.
            rules.sort_by_key(|rule| std::cmp::Reverse((rule["denied"].as_u64(), rule["allowed"].as_u64())));
        }
        list
    }

    fn filtered(&self, call: Call) -> Call {
        call.query("domain", self.domain.as_ref()).query("rule", self.rule.as_ref())
    }

    pub(super) fn next_view(&mut self, steps: usize) {
        let at = View::ALL.iter().position(|view| *view == self.view).unwrap_or_default();
        self.view = View::ALL[(at + steps) % View::ALL.len()];
    }

    pub(super) fn next_by(&mut self) {
        self.by = if self.by == By::Denied { By::Active } else { By::Denied };
    }

    pub(super) fn next_window(&mut self) {
        self.window = match self.window {
            Window::Minute => Window::TenMinutes,
            Window::TenMinutes => Window::Hour,
            Window::Hour => Window::Minute,
        };
    }
}

/// The response of a node.
pub(super) struct Reading {
    pub(super) view: View,
    overview: Json,
    decisions: Json,
    latency: Json,
    list: Json,
}

impl Reading {
    /// Asks a node.
    pub(super) fn ask(client: &Client, query: &Query) -> Outcome<Self> {
        let history = |metric: &str| Call::get(&["history"]).query("metric", Some(metric));
        Ok(Self {
            view: query.view,
            overview: client.send(Call::get(&["overview"]))?.json()?,
            decisions: client.send(history("decisions"))?.json()?,
            latency: client.send(history("latency"))?.json()?,
            list: query.kept(client.send(query.call())?.json()?),
        })
    }

    #[cfg(test)]
    pub(super) fn of(view: View, overview: Json, decisions: Json, latency: Json, list: Json) -> Self {
        Self { view, overview, decisions, latency, list }
    }

    pub(super) fn node(&self) -> String {
        plain(&text(&self.overview, "node"))
    }

    pub(super) fn version(&self) -> String {
        plain(&text(&self.overview, "version"))
    }

    /// Returns how long the node has run, such as `3h 12m`.
    pub(super) fn uptime(&self) -> String {
        let seconds = self.overview["uptime_s"].as_u64().unwrap_or_default();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => format!("{seconds}s"),
            (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
            (0, hours, minutes) => format!("{hours}h {minutes}m"),
            (days, hours, _) => format!("{days}d {hours}h"),
        }
    }

    /// Returns `normal`, `degraded`, `emergency` or `disabled`.
    pub(super) fn degradation(&self) -> String {
        plain(&text(&self.overview["degradation"], "name"))
    }

    /// Returns whether the node is degraded.
    pub(super) fn is_degraded(&self) -> bool {
        self.overview["degradation"]["level"].as_u64().is_some_and(|level| level > 0)
    }

    /// Returns why the node is degraded.
    pub(super) fn reasons(&self) -> Vec<String> {
        let reasons = self.overview["degradation"]["reasons"].as_array().into_iter().flatten();
        reasons.filter_map(Json::as_str).map(plain).collect()
    }

    /// Returns the number of nodes that share the store.
    pub(super) fn nodes(&self) -> usize {
        self.overview["nodes"].as_array().map_or(1, |nodes| nodes.len().max(1))
    }

    /// Returns `memory` or `redis`.
    pub(super) fn store(&self) -> String {
        plain(&text(&self.overview["store"], "kind"))
    }

    /// Returns the decisions per second of each outcome over the last whole step, 10 seconds.
    pub(super) fn rates(&self) -> impl Iterator<Item = (String, Option<f64>)> {
        let series = self.decisions["series"].as_array().into_iter().flatten();
        series.map(|series| (text(series, "name"), last(series)))
    }

    /// Returns the decisions per second of one outcome.
    pub(super) fn rate(&self, outcome: &str) -> Option<f64> {
        self.rates().find(|(name, _)| name == outcome)?.1
    }

    /// Returns a percentile of the latency in microseconds.
    pub(super) fn percentile_us(&self, name: &str) -> Option<f64> {
        last(series(&self.latency, name)?)
    }

    /// Returns the last values of an outcome or a percentile, the newest last; 0 where there is none.
    pub(super) fn values(&self, name: &str, count: usize) -> Vec<u64> {
        let found = series(&self.decisions, name).or_else(|| series(&self.latency, name));
        let values = found.map_or(&[][..], values);
        let whole = &values[..values.len().saturating_sub(1)];
        let shown = &whole[whole.len().saturating_sub(count)..];
        // Rates below one decision per second are to be seen too.
        shown.iter().map(|value| (value.as_f64().unwrap_or_default() * 10.0) as u64).collect()
    }

    /// Returns by what, over which time and of whom the keys are.
    pub(super) fn scope(&self) -> (String, String, String) {
        (text(&self.list, "by"), text(&self.list, "window"), text(&self.list, "scope"))
    }

    /// Returns the rows of the list: keys, rules or denials.
    pub(super) fn items(&self) -> &[Json] {
        let name = match self.view {
            View::Keys => "keys",
            View::Rules => "rules",
            View::Denials => "denials",
        };
        self.list[name].as_array().map_or(&[], Vec::as_slice)
    }
}

fn series<'j>(history: &'j Json, name: &str) -> Option<&'j Json> {
    history["series"].as_array()?.iter().find(|series| series["name"] == name)
}

fn values(series: &Json) -> &[Json] {
    series["values"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the value of the last whole step; the one after it has only just begun.
fn last(series: &Json) -> Option<f64> {
    values(series).iter().rev().nth(1).and_then(Json::as_f64)
}

/// Returns the name of a key, or its fingerprint if its rule hides it.
pub(super) fn key_name(item: &Json) -> String {
    match item["key"].as_str() {
        Some(key) if item["hidden"] != true => plain(key),
        _ => text(item, "fingerprint"),
    }
}

/// Returns a number in at most five characters, such as `12.4k`.
pub(super) fn short_number(number: f64) -> String {
    match number {
        number if number >= 1e9 => format!("{:.1}G", number / 1e9),
        number if number >= 1e6 => format!("{:.1}M", number / 1e6),
        number if number >= 1e4 => format!("{:.1}k", number / 1e3),
        number if number >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        number => format!("{number:.1}"),
    }
}

/// Returns microseconds with a unit, such as `1.2 ms`.
pub(super) fn short_time(us: f64) -> String {
    let mut text = String::new();
    let _ = match us {
        us if us >= 1e6 => write!(text, "{:.1} s", us / 1e6),
        us if us >= 1e3 => write!(text, "{:.1} ms", us / 1e3),
        us => write!(text, "{us:.0} µs"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        for (number, shown) in [
            (0.0, "0"),
            (3.25, "3.2"),
            (250.4, "250"),
            (9_999.0, "9999"),
            (12_400.0, "12.4k"),
            (3.1e6, "3.1M"),
        ] {
            assert_eq!(short_number(number), shown);
        }
        assert_eq!([12.0, 1_240.0, 2.5e6].map(short_time), ["12 µs", "1.2 ms", "2.5 s"]);
    }
}
