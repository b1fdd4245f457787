//! `tidegate rules`: the rules in the catalog, and their versions.
//!
//! - [`change`]: push, diff and rollback

mod change;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value as Json;

use self::change::{Diff, Push, Rollback};
use super::client::Call;
use super::confirm::Confirm;
use super::flags::AdminFlags;
use super::output::{self, Column, ListOutput, print_body, text};
use super::pages::Paging;
use super::table::plain;
use super::{Outcome, finish, long_help};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate rules list
  tidegate rules push rules/api.yaml -m 'twice the search limit'
  tidegate rules push rules/api.yaml --dry-run        print what would change
  tidegate rules diff -f rules/api.yaml               print only the changed lines
  tidegate rules history api
  tidegate rules diff api --from 3 --to 5
  tidegate rules rollback api 3 -m 'search is too slow'
  tidegate rules show api --version 3 > api.yaml";

/// Show and change the rules in the catalog and their versions.
///
/// The rules of a domain are either in a rule file of the nodes or in the catalog. Rule files are listed too, but changed
/// only on the nodes.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES), arg_required_else_help = true)]
pub(in crate::cli) struct Rules {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Push(Box<Push>),
    Diff(Box<Diff>),
    History(History),
    Rollback(Rollback),
    Delete(Delete),
}

/// List the domains in force, and their owners.
#[derive(Args)]
#[command(visible_alias = "ls", after_long_help = long_help(EXAMPLES))]
struct List {
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Print the rules of a domain.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Show {
    /// The domain.
    domain: String,
    /// The version [default: the one in force]
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    #[command(flatten)]
    admin: AdminFlags,
}

/// List the versions of a domain's rules, newest first.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct History {
    /// The domain.
    domain: String,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Delete the rules of a domain. Their history is kept as long as `history.keep` says.
#[derive(Args)]
#[command(visible_alias = "rm", after_long_help = long_help(EXAMPLES))]
struct Delete {
    /// The domain.
    domain: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    admin: AdminFlags,
}

impl Rules {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(match self.command {
            Command::List(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Push(command) => command.run(),
            Command::Diff(command) => command.run(),
            Command::History(command) => command.run(),
            Command::Rollback(command) => command.run(),
            Command::Delete(command) => command.run(),
        })
    }
}

impl List {
    fn run(self) -> Outcome {
        let response = self.admin.client()?.send(Call::get(&["rules"]))?;
        let count = |item: &Json| {
            item["rules"].as_array().map_or_else(|| text(item, "rules"), |rules| rules.len().to_string())
        };
        let list = output::List {
            name: "domain",
            columns: vec![
                Column::member("DOMAIN", "domain"),
                Column::member("OWNER", "owner"),
                Column::member("VERSION", "version"),
                Column::new("RULES", count),
                Column::member("TENANT", "tenant").wide(),
                Column::member("FILE", "file").wide(),
            ],
            empty: "no rules are in force",
        };
        self.output.print_response(&response, &list)
    }
}

impl Show {
    fn run(self) -> Outcome {
        let call = Call::get(&["rules", &self.domain]).query("version", self.version);
        print_body(&self.admin.client()?.send(call)?);
        Ok(())
    }
}

impl History {
    fn run(self) -> Outcome {
        let client = self.admin.client()?;
        let call = || Call::get(&["rules", &self.domain, "versions"]);
        let what = |item: &Json| match (item["deleted"] == true, item["rolled_back_to"].as_u64()) {
            (true, _) => "deleted".to_owned(),
            (false, Some(version)) => format!("back to {version}"),
            (false, None) => "pushed".to_owned(),
        };
        let list = output::List {
            name: "version",
            columns: vec![
                Column::member("VERSION", "version"),
                Column::time("CREATED", "created_at"),
                Column::member("AUTHOR", "author"),
                Column::new("WHAT", what),
                Column::member("COMMENT", "comment"),
            ],
            empty: "the catalog has no versions for this domain",
        };
        self.paging.print(&client, &self.output, call, &list)
    }
}

impl Delete {
    fn run(self) -> Outcome {
        let domain = plain(&self.domain);
        self.confirm.ask(&format!("delete the rules of {domain}"))?;
        self.admin.client()?.send(Call::new(Method::DELETE, &["rules", &self.domain]))?;
        out::print(&format!("{domain}: deleted; `tidegate rules rollback` restores a version\n"));
        Ok(())
    }
}
