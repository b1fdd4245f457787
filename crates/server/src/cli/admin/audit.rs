//! `tidegate audit`: the changes that were made, and whether the audit trail is intact.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use tidegate_audit::{Summary, VerifyError, verify};

use super::client::Call;
use super::failure::Failure;
use super::flags::AdminFlags;
use super::output::{self, Column, ListOutput, OneOutput};
use super::pages::Paging;
use super::{EXIT_CODES, Outcome, finish, long_help, when};
use crate::cli::flags::ConfigFlag;
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate audit list --from 24h
  tidegate audit list --object acme -o wide
  tidegate audit verify                    the trail in the data folder of this machine's node
  tidegate audit verify /backup/audit";

const VERIFY_EXAMPLES: &str = "\
Examples:
  tidegate audit verify
  tidegate audit verify /var/lib/tidegate/audit --json | jq -r .last.hash";

/// List changes, and verify the audit trail.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES), arg_required_else_help = true)]
pub(in crate::cli) struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(Box<List>),
    Verify(Verify),
}

/// List changes, newest first.
#[derive(Args)]
#[command(visible_alias = "ls", after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
struct List {
    /// Only changes by the token with this name.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only changes with this action, such as `put_tenant`.
    #[arg(long)]
    action: Option<String>,
    /// Only changes to this kind of object: tenant, rules, switch, token or usage.
    #[arg(long)]
    kind: Option<String>,
    /// Only changes to this tenant, domain, rule or token.
    #[arg(long, value_name = "NAME")]
    object: Option<String>,
    /// Only changes at or after this time: a time, a date, or 24h for 24 hours ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    from: Option<Timestamp>,
    /// Only changes before this time.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    to: Option<Timestamp>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Verify the audit files in a folder: every line against the one before.
///
/// Reads files on this machine, without a node. Finds lines that were changed, removed, moved or inserted, and a truncated
/// end. If the hash of the newest line is stored elsewhere, it proves later that everything up to it is unchanged.
#[derive(Args)]
#[command(after_help = VERIFY_EXAMPLES, after_long_help = format!("{VERIFY_EXAMPLES}\n\n{EXIT_CODES}"))]
struct Verify {
    /// The folder [default: `audit` in the data folder, setting `data`]
    folder: Option<PathBuf>,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    config: ConfigFlag,
}

impl Audit {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(match self.command {
            Command::List(command) => command.run(),
            Command::Verify(command) => command.run(),
        })
    }
}

impl List {
    fn run(self) -> Outcome {
        let client = self.admin.client()?;
        let call = || {
            Call::get(&["audit"])
                .query("actor", self.actor.as_ref())
                .query("action", self.action.as_ref())
                .query("kind", self.kind.as_ref())
                .query("object", self.object.as_ref())
                .query("from", self.from)
                .query("to", self.to)
        };
        let list = output::List {
            name: "object",
            columns: vec![
                Column::time("AT", "at"),
                Column::member("ACTOR", "actor"),
                Column::member("ACTION", "action"),
                Column::member("OBJECT", "object"),
                Column::member("REQUEST", "request_id"),
                Column::member("BEFORE", "before").wide(),
                Column::member("AFTER", "after").wide(),
            ],
            empty: "no changes found",
        };
        self.paging.print(&client, &self.output, call, &list)
    }
}

impl Verify {
    fn run(self) -> Outcome {
        let folder = self.folder.map_or_else(|| default_folder(self.config), Ok)?;
        match verify(&folder) {
            Ok(summary) if self.output.is_json() => out::print_json(&summary),
            Ok(summary) => out::print(&summary_text(&summary)),
            Err(VerifyError::Broken(broken)) => {
                if self.output.is_json() {
                    out::print_json(&serde_json::json!({ "broken": broken }));
                }
                return Err(Failure::other(format!(
                    "{broken}\nhint: the audit files were modified: keep a copy of the folder, and compare it with a backup"
                )));
            }
            Err(error) => return Err(Failure::other(error.to_string())),
        }
        Ok(())
    }
}

/// Returns the audit folder of the node on this machine.
fn default_folder(config: ConfigFlag) -> Outcome<PathBuf> {
    let settings = config.settings().map_err(|problems| Failure::other(problems.to_string()))?;
    Ok(settings.data.join("audit"))
}

fn summary_text(summary: &Summary) -> String {
    let Some((first, last)) = summary.first.zip(summary.last) else {
        return "whole: no records yet\n".to_owned();
    };
    let segments = out::count(summary.segments as usize, "file");
    let records = out::count(summary.records as usize, "record");
    let mut text = format!(
        "whole: {records} in {segments}, from {} to {}\nlast hash: {}\n",
        first.seq, last.seq, last.hash
    );
    let mut also = |number: u64, what: &str| {
        if number > 0 {
            let _ = writeln!(text, "{what}: {number}");
        }
    };
    also(summary.retired, "older records removed according to the settings");
    also(summary.missing.changes, "changes that were not written (the buffer was full)");
    also(summary.missing.denials, "sampled denials that were not written (the buffer was full)");
    also(summary.cuts, "ends that were incomplete, such as after a crash");
    also(summary.lost, "records that had been written and were missing at a start");
    also(summary.unfinished_bytes, "bytes of an unfinished line at the end");
    text
}
