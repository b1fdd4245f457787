//! `tidegate switch`: kill switches.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value as Json, json};

use super::client::Call;
use super::flags::AdminFlags;
use super::output::{self, Column, Format, ListOutput, OneOutput, print_body, text, value_name};
use super::table::plain;
use super::{Outcome, finish, long_help};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate switch list
  tidegate switch set per_user shadow      count what the rule would deny, without denying it
  tidegate switch set per_user enforce
  tidegate switch set '*' off              ignore all rules
  tidegate switch set '*' off --local      on this node alone, while the catalog's database is unreachable
  tidegate switch unset per_user           remove the switch";

/// Set rules to shadow or off while the service runs, and back.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES), arg_required_else_help = true)]
pub(in crate::cli) struct Switch {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Get(Get),
    Set(Set),
    Unset(Unset),
}

/// List the switches that are set.
#[derive(Args)]
#[command(visible_alias = "ls", after_long_help = long_help(EXAMPLES))]
struct List {
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Show the switch of a rule.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Get {
    /// The name or path of the rule; `*` for all rules.
    rule: String,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Set the switch of a rule, or of all rules.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Set {
    /// The name or path of the rule; `*` for all rules.
    rule: String,
    /// The mode.
    mode: Mode,
    /// Set it on this node alone, without the catalog, while its database is unreachable. The catalog replaces it once it is
    /// reachable again.
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Remove the switch of a rule, or of all rules: the rules and the settings apply again.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Unset {
    /// The name or path of the rule, which need not exist any more; `*` for all rules.
    rule: String,
    /// Remove the switch of this node alone.
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    admin: AdminFlags,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// The rule is enforced.
    Enforce,
    /// The rule is evaluated and counted, and denies nothing.
    Shadow,
    /// The rule is ignored.
    Off,
}

impl Switch {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(match self.command {
            Command::List(command) => command.run(),
            Command::Get(command) => command.run(),
            Command::Set(command) => command.run(),
            Command::Unset(command) => command.run(),
        })
    }
}

/// The advice while the catalog is unreachable.
const ON_THE_NODE: &str = "act on this node alone with --local";

impl List {
    fn run(self) -> Outcome {
        let response = self.admin.client()?.send(Call::get(&["switches"]))?;
        if self.output.format() == Format::Json {
            print_body(&response);
            return Ok(());
        }
        let body = response.json()?;
        let switch =
            |rule: &str, mode: &Json| json!({ "rule": rule, "mode": mode, "from": body["from"][rule] });
        let mut switches = vec![switch("*", &body["all"])];
        switches
            .extend(body["rules"].as_object().into_iter().flatten().map(|(rule, mode)| switch(rule, mode)));
        let list = output::List {
            name: "rule",
            columns: vec![
                Column::member("RULE", "rule"),
                Column::member("MODE", "mode"),
                Column::member("FROM", "from"),
            ],
            empty: "no switches",
        };
        self.output.print(&switches, &list);
        Ok(())
    }
}

impl Get {
    fn run(self) -> Outcome {
        let response = self.admin.client()?.send(Call::get(&["switches", &self.rule]))?;
        if self.output.is_json() {
            print_body(&response);
        } else {
            out::print(&format!("{}: {}\n", plain(&self.rule), plain(&text(&response.json()?, "mode"))));
        }
        Ok(())
    }
}

impl Set {
    fn run(self) -> Outcome {
        let call = Call::new(Method::PUT, &["switches", &self.rule])
            .json(&json!({ "mode": value_name(&self.mode) }));
        let call = call.query("local", self.local.then_some(true));
        let response = self.admin.client()?.send(call).map_err(|failure| failure.or_else(ON_THE_NODE))?;
        if self.output.is_json() {
            print_body(&response);
            return Ok(());
        }
        let shown = response.json()?;
        let note = text(&shown, "note");
        let note = if note.is_empty() { note } else { format!(" ({})", plain(&note)) };
        out::print(&format!("{}: {}{note}\n", plain(&self.rule), plain(&text(&shown, "mode"))));
        Ok(())
    }
}

impl Unset {
    fn run(self) -> Outcome {
        let call = Call::new(Method::DELETE, &["switches", &self.rule]);
        let call = call.query("local", self.local.then_some(true));
        self.admin.client()?.send(call).map_err(|failure| failure.or_else(ON_THE_NODE))?;
        out::print(&format!("{}: not set\n", plain(&self.rule)));
        Ok(())
    }
}
