//! `tidegate top` and `tidegate denials`: what happens on a running node.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value as Json;

use super::client::{Call, Client};
use super::flags::AdminFlags;
use super::output::{Column, Format, List, ListOutput, print_body, text, value_name};
use super::table::{Table, plain};
use super::{Outcome, finish, long_help, when};
use crate::cli::out;

/// How often the screen is drawn.
const EVERY: Duration = Duration::from_secs(2);
/// Moves to the upper left corner, and clears the screen from there.
const CLEAR: &str = "\x1b[H\x1b[J";

const TOP_EXAMPLES: &str = "\
Examples:
  tidegate top
  tidegate top --by active --window 1m --rule api_key
  tidegate top --admin https://node-1:6070 --once
  tidegate top --once --json | jq '.keys[0]'";

const DENIALS_EXAMPLES: &str = "\
Examples:
  tidegate denials
  tidegate denials --rule api_key --limit 20
  tidegate denials --fingerprint 9f3a5c0d11e2b47a -o json";

/// Show the keys with the most decisions, live.
///
/// Draws the screen every two seconds until it is stopped. With --once, or where standard output is not a terminal, prints
/// once. Counts are estimates; each states its error.
#[derive(Args)]
#[command(after_help = TOP_EXAMPLES, after_long_help = long_help(TOP_EXAMPLES))]
pub(in crate::cli) struct Top {
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    admin: AdminFlags,
}

/// What is shown, and how often.
#[derive(Args)]
struct Shown {
    /// Which decisions are counted.
    #[arg(long, default_value = "denied")]
    by: By,
    /// The time over which they are counted.
    #[arg(long, default_value = "10m")]
    window: Window,
    /// Only the keys of this domain.
    #[arg(long)]
    domain: Option<String>,
    /// Only the keys of this rule.
    #[arg(long)]
    rule: Option<String>,
    /// The number of keys.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only the keys of this node, and not of all that share its store.
    #[arg(long)]
    node: bool,
    /// Print once and exit.
    #[arg(long)]
    once: bool,
    /// Print the response of the API once and exit.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// Those that were denied.
    Denied,
    /// All.
    Active,
}

#[derive(Clone, Copy, ValueEnum)]
enum Window {
    /// A minute.
    #[value(name = "1m")]
    Minute,
    /// Ten minutes.
    #[value(name = "10m")]
    TenMinutes,
    /// An hour.
    #[value(name = "60m")]
    Hour,
}

/// List the last denials of each rule, newest first.
#[derive(Args)]
#[command(after_help = DENIALS_EXAMPLES, after_long_help = long_help(DENIALS_EXAMPLES))]
pub(in crate::cli) struct Denials {
    /// Only those of this domain.
    #[arg(long)]
    domain: Option<String>,
    /// Only those of this rule.
    #[arg(long)]
    rule: Option<String>,
    /// Only those of the key with this fingerprint.
    #[arg(long, value_name = "TEXT")]
    fingerprint: Option<String>,
    /// The maximum number of denials.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

impl Top {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(self.show())
    }

    fn show(self) -> Outcome {
        let (shown, client) = (self.shown, self.admin.client()?);
        if shown.json {
            print_body(&client.send(shown.call())?);
            return Ok(());
        }
        if shown.once || !std::io::stdout().is_terminal() {
            out::print(&shown.screen(&client)?);
            return Ok(());
        }
        loop {
            let screen = shown.screen(&client)?;
            out::print(&format!("{CLEAR}{screen}\nevery {} s; stop with ctrl-c\n", EVERY.as_secs()));
            thread::sleep(EVERY);
        }
    }
}

impl Shown {
    fn call(&self) -> Call {
        Call::get(&["top"])
            .query("by", Some(value_name(&self.by)))
            .query("window", Some(value_name(&self.window)))
            .query("domain", self.domain.as_ref())
            .query("rule", self.rule.as_ref())
            .query("limit", Some(self.limit))
            .query("scope", self.node.then_some("node"))
    }

    fn screen(&self, client: &Client) -> Outcome<String> {
        let overview = client.send(Call::get(&["overview"]))?.json()?;
        let history = client.send(Call::get(&["history"]))?.json()?;
        let top = client.send(self.call())?.json()?;
        let mut screen = summary(&overview, &history);
        let (by, window, scope) = (text(&top, "by"), text(&top, "window"), text(&top, "scope"));
        let _ = writeln!(screen, "\nmost {by} keys of {window}, {scope}");
        let keys = top["keys"].as_array().map_or(&[][..], Vec::as_slice);
        if keys.is_empty() {
            screen.push_str("none\n");
            return Ok(screen);
        }
        let mut table = Table::new(&["COUNT", "ERROR", "KEY", "RULE", "DOMAIN", "LAST"]);
        let now = when::now();
        for key in keys {
            let name = if key["hidden"] == true { text(key, "fingerprint") } else { text(key, "key") };
            let error = format!("±{}", text(key, "error"));
            let last = when::shown(key["last"].as_str(), now);
            table.row(vec![text(key, "count"), error, name, text(key, "rule"), text(key, "domain"), last]);
        }
        screen.push_str(&table.render(true));
        Ok(screen)
    }
}

/// Returns the state of a node in a few lines.
fn summary(overview: &Json, history: &Json) -> String {
    let degradation = &overview["degradation"];
    let mut text = format!(
        "{}  {}  up {} s  {}\n",
        plain(&text_of(&overview["node"])),
        plain(&text_of(&overview["version"])),
        overview["uptime_s"],
        plain(&text_of(&degradation["name"])),
    );
    for reason in degradation["reasons"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "  {}", plain(&text_of(reason)));
    }
    let rates = history["series"].as_array().into_iter().flatten().map(|series| {
        // The last step has only just begun.
        let values = series["values"].as_array().map_or(&[][..], Vec::as_slice);
        let value = values.iter().rev().nth(1).and_then(Json::as_f64);
        format!(
            "{} {}/s",
            text_of(&series["name"]),
            value.map_or("-".to_owned(), |value| format!("{value:.1}"))
        )
    });
    text.push_str(&rates.collect::<Vec<_>>().join("  "));
    text.push('\n');
    text
}

fn text_of(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Denials {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(self.show())
    }

    fn show(self) -> Outcome {
        let call = Call::get(&["denials"])
            .query("domain", self.domain.as_ref())
            .query("rule", self.rule.as_ref())
            .query("fingerprint", self.fingerprint.as_ref())
            .query("limit", self.limit);
        let response = self.admin.client()?.send(call)?;
        if self.output.format() == Format::Json {
            print_body(&response);
            return Ok(());
        }
        let key = |denial: &Json| match &denial["key"] {
            Json::Null => text(denial, "fingerprint"),
            key => text_of(key),
        };
        let retry = |denial: &Json| {
            let ms = denial["retry_after_ms"].as_u64();
            ms.map_or("never".to_owned(), |ms| format!("{:.1?}", Duration::from_millis(ms)))
        };
        let list = List {
            name: "id",
            columns: vec![
                Column::time("AT", "at"),
                Column::new("KEY", key),
                Column::member("RULE", "rule"),
                Column::member("LIMIT", "limit"),
                Column::new("RETRY AFTER", retry),
                Column::member("SHADOW", "shadow"),
                Column::member("NUMBERS", "limit_text").wide(),
                Column::member("COST", "cost").wide(),
                Column::member("SOURCE", "source").wide(),
                Column::member("BY", "front_end").wide(),
                Column::member("DOMAIN", "domain").wide(),
                Column::member("ID", "id").wide(),
            ],
            empty: "nothing was denied lately",
        };
        let body = response.json()?;
        self.output.print(body["denials"].as_array().map_or(&[][..], Vec::as_slice), &list);
        Ok(())
    }
}
