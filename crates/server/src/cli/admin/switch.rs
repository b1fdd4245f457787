//! `tidegate switch`: kill switches.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::json;

use super::client::Call;
use super::flags::AdminFlags;
use super::output::{Format, ListOutput, OneOutput, print_body, text};
use super::table::{Table, plain};
use super::{Outcome, finish, long_help};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate switch list
  tidegate switch set per_user shadow      count what the rule would deny, and deny nothing
  tidegate switch set per_user enforce
  tidegate switch set '*' off              no rule is looked at any more
  tidegate switch set '*' off --local      on this node alone, while the catalog's database is away
  tidegate switch unset per_user           as if it had never been set";

/// Switch rules to shadow or off while the service runs, and back.
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

/// List the switches that are not as rules say.
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
    /// The rule's name or path; `*` for all rules.
    rule: String,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Switch a rule, or all.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Set {
    /// The rule's name or path; `*` for all rules.
    rule: String,
    /// What becomes of it.
    mode: Mode,
    /// On this node alone, without the catalog: for when its database is away. What the catalog says replaces it
    /// once the catalog answers again.
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Remove the switch of a rule, or of all: the rules and the settings hold again.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Unset {
    /// The rule's name or path, also of a rule that there is no more; `*` for all rules.
    rule: String,
    /// That of this node alone.
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    admin: AdminFlags,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// It does what it says.
    Enforce,
    /// It is evaluated and counted, and denies nobody.
    Shadow,
    /// Nobody looks at it.
    Off,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }
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

impl List {
    fn run(self) -> Outcome {
        let answer = self.admin.client()?.send(Call::get(&["switches"]))?;
        if self.output.format() == Format::Json {
            print_body(&answer);
            return Ok(());
        }
        let body = answer.json()?;
        let mut switches = vec![("*".to_owned(), text(&body, "all"))];
        if let Some(rules) = body["rules"].as_object() {
            switches.extend(
                rules.iter().map(|(rule, mode)| (rule.clone(), mode.as_str().unwrap_or_default().to_owned())),
            );
        }
        if self.output.format() == Format::Name {
            out::print(&switches.iter().fold(String::new(), |all, (rule, _)| all + rule + "\n"));
            return Ok(());
        }
        let mut table = Table::new(&["RULE", "MODE", "FROM"]);
        for (rule, mode) in switches {
            let from = text(&body["from"], &rule);
            table.row(vec![rule, mode, from]);
        }
        self.output.print(&table, "no switches");
        Ok(())
    }
}

impl Get {
    fn run(self) -> Outcome {
        let answer = self.admin.client()?.send(Call::get(&["switches", &self.rule]))?;
        if self.output.is_json() {
            print_body(&answer);
        } else {
            out::print(&format!("{}: {}\n", plain(&self.rule), plain(&text(&answer.json()?, "mode"))));
        }
        Ok(())
    }
}

impl Set {
    fn run(self) -> Outcome {
        let call =
            Call::new(Method::PUT, &["switches", &self.rule]).json(&json!({ "mode": self.mode.name() }));
        let call = call.query("local", self.local.then_some(true));
        let answer = self.admin.client()?.send(call)?;
        if self.output.is_json() {
            print_body(&answer);
            return Ok(());
        }
        let shown = answer.json()?;
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
        self.admin.client()?.send(call)?;
        out::print(&format!("{}: not set\n", plain(&self.rule)));
        Ok(())
    }
}
