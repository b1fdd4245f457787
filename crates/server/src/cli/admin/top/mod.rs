//! `tidegate top`: what happens on a running node, live in the terminal.
//!
//! - [`reading`]: queries the node and parses its response
//! - [`live`]: the terminal: handles key presses, and runs a thread that queries the node
//! - [`screen`]: draws a reading

#![expect(
    clippy::float_arithmetic,
    clippy::cast_sign_loss,
    reason = "rates and times are fractions; they are shown, and decide nothing"
)]

mod live;
mod reading;
mod screen;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use self::reading::{Query, Reading};
use super::flags::AdminFlags;
use super::output::{print_body, text};
use super::table::Table;
use super::{Outcome, finish, long_help, when};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate top
  tidegate top --by active --window 1m --rule api_key
  tidegate top --context production
  tidegate top --admin https://node-1:6070 --once
  tidegate top --once --json | jq '.keys[0]'";

/// Show what a node does, live: decisions per second, latency, the keys with the most decisions, rules, denials.
///
/// Takes the whole terminal and asks the node every two seconds, until q or ctrl-c is pressed. Press tab for another list,
/// b for denied or all decisions, w for another window, n for this node or all, p to pause. With --once, or where standard
/// output is not a terminal, prints the keys once. Counts are estimates; each states its error.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Those that were denied.
    Denied,
    /// All.
    Active,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
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

impl Top {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(self.show())
    }

    fn show(self) -> Outcome {
        let (shown, client) = (self.shown, self.admin.client()?);
        let (once, json) = (shown.once, shown.json);
        let query = Query::new(shown);
        if json {
            print_body(&client.send(query.top_call())?);
            return Ok(());
        }
        if once || !std::io::stdout().is_terminal() {
            out::print(&printed(&Reading::ask(&client, &query)?));
            return Ok(());
        }
        live::run(client, query)
    }
}

/// Returns a reading as text, for output that is not a terminal.
fn printed(reading: &Reading) -> String {
    let mut printed = format!(
        "{}  {}  up {}  {}\n",
        reading.node(),
        reading.version(),
        reading.uptime(),
        reading.degradation()
    );
    for reason in reading.reasons() {
        let _ = writeln!(printed, "  {reason}");
    }
    let rates = reading.rates().map(|(name, rate)| {
        let rate = rate.map_or("-".to_owned(), |rate| format!("{rate:.1}"));
        format!("{name} {rate}/s")
    });
    let _ = writeln!(printed, "{}", rates.collect::<Vec<_>>().join("  "));
    let (by, window, scope) = reading.scope();
    let _ = writeln!(printed, "\nmost {by} keys of {window}, {scope}");
    let keys = reading.items();
    if keys.is_empty() {
        printed.push_str("none\n");
        return printed;
    }
    let mut table = Table::new(&["COUNT", "ERROR", "KEY", "RULE", "DOMAIN", "LAST"]);
    let now = when::now();
    for key in keys {
        let error = format!("±{}", text(key, "error"));
        let last = when::shown(key["last"].as_str(), now);
        let name = reading::key_name(key);
        table.row(vec![text(key, "count"), error, name, text(key, "rule"), text(key, "domain"), last]);
    }
    printed.push_str(&table.render(true));
    printed
}
