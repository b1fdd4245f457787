//! `tidegate rules`: rule sets of the catalog, and their versions.
//!
//! - [`change`]: what changes them, or would

mod change;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use jiff::Timestamp;

use self::change::{Diff, Push, Rollback};
use super::client::Call;
use super::confirm::Confirm;
use super::flags::AdminFlags;
use super::output::{Format, ListOutput, items, print_body, text};
use super::pages::Paging;
use super::table::{Table, plain};
use super::{Outcome, finish, long_help, when};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate rules list
  tidegate rules push rules/api.yaml -m 'twice the search limit'
  tidegate rules push rules/api.yaml --dry-run        what would change
  tidegate rules diff -f rules/api.yaml               the same, the lines alone
  tidegate rules history api
  tidegate rules diff api --from 3 --to 5
  tidegate rules rollback api 3 -m 'search is too slow'
  tidegate rules show api --version 3 > api.yaml";

/// Show and change the rules in the catalog: versions, differences, and the way back.
///
/// A domain's rules are in a file of the nodes or in the catalog, never in both. What is in files is listed here,
/// and changed there.
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

/// List the domains in force, and whose they are.
#[derive(Args)]
#[command(visible_alias = "ls", after_long_help = long_help(EXAMPLES))]
struct List {
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Print a domain's rules as they were pushed.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Show {
    /// The domain.
    domain: String,
    /// An earlier version [default: the one in force]
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

/// Take a domain's rules out of force. Their history stays for as long as `history.keep` says.
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
        let answer = self.admin.client()?.send(Call::get(&["rules"]))?;
        if self.output.format() == Format::Json {
            print_body(&answer);
            return Ok(());
        }
        let body = answer.json()?;
        if self.output.format() == Format::Name {
            out::print(
                &items(&body).iter().fold(String::new(), |all, item| all + &text(item, "domain") + "\n"),
            );
            return Ok(());
        }
        let wide = self.output.format() == Format::Wide;
        let mut head = vec!["DOMAIN", "OWNER", "VERSION", "RULES"];
        if wide {
            head.extend(["TENANT", "FILE"]);
        }
        let mut table = Table::new(&head);
        for item in items(&body) {
            let rules =
                item["rules"].as_array().map_or_else(|| text(item, "rules"), |rules| rules.len().to_string());
            let mut row = vec![text(item, "domain"), text(item, "owner"), text(item, "version"), rules];
            if wide {
                row.extend([text(item, "tenant"), text(item, "file")]);
            }
            table.row(row);
        }
        self.output.print(&table, "no rules are in force");
        Ok(())
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
        self.paging.print(&client, &self.output, call, |items| {
            if self.output.format() == Format::Name {
                out::print(
                    &items.iter().fold(String::new(), |all, item| all + &text(item, "version") + "\n"),
                );
                return;
            }
            let (mut table, now) =
                (Table::new(&["VERSION", "CREATED", "AUTHOR", "WHAT", "COMMENT"]), Timestamp::now());
            for item in items {
                let what = match (item["deleted"] == true, item["rolled_back_to"].as_u64()) {
                    (true, _) => "deleted".to_owned(),
                    (false, Some(version)) => format!("back to {version}"),
                    (false, None) => "pushed".to_owned(),
                };
                let created = when::shown(item["created_at"].as_str(), now);
                table.row(vec![
                    text(item, "version"),
                    created,
                    text(item, "author"),
                    what,
                    text(item, "comment"),
                ]);
            }
            self.output.print(&table, "the catalog never had rules for this domain");
        })
    }
}

impl Delete {
    fn run(self) -> Outcome {
        let domain = plain(&self.domain);
        self.confirm.ask(&format!("take the rules of {domain} out of force"))?;
        self.admin.client()?.send(Call::new(Method::DELETE, &["rules", &self.domain]))?;
        out::print(&format!("{domain}: deleted; `tidegate rules rollback` brings a version back\n"));
        Ok(())
    }
}
