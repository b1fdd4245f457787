//! `tidegate audit`: who changed what, and whether the trail of it is whole.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value as Json;
use tidegate_audit::{Summary, VerifyError, verify};

use super::client::Call;
use super::failure::Failure;
use super::flags::AdminFlags;
use super::output::{Format, ListOutput, OneOutput, text};
use super::pages::Paging;
use super::table::Table;
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

/// Show who changed what, and check that the trail of it is whole.
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
    /// Those by this token's name only.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Those of this kind only, such as `put_tenant`.
    #[arg(long)]
    action: Option<String>,
    /// Those of this kind of thing only: tenant, rules, switch, token or usage.
    #[arg(long)]
    kind: Option<String>,
    /// Those of this tenant, domain, rule or token only.
    #[arg(long, value_name = "NAME")]
    object: Option<String>,
    /// Not before this time: a time, a date, or 24h ago.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    from: Option<Timestamp>,
    /// Before this time.
    #[arg(long, value_name = "TIME", value_parser = when::past)]
    to: Option<Timestamp>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Check the audit files of a folder: every line against the one before.
///
/// Reads files on this machine, and asks no node. Lines that were edited, removed, moved or put in between are
/// found, and so is an end that was cut off. The hash of the newest line, kept elsewhere, proves later that
/// everything up to it is as it was.
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
        self.paging.print(&client, &self.output, call, |items| show(items, &self.output))
    }
}

fn show(items: &[Json], output: &ListOutput) {
    if output.format() == Format::Name {
        out::print(&items.iter().fold(String::new(), |all, item| all + &text(item, "object") + "\n"));
        return;
    }
    let wide = output.format() == Format::Wide;
    let mut head = vec!["AT", "ACTOR", "ACTION", "OBJECT", "REQUEST"];
    if wide {
        head.extend(["BEFORE", "AFTER"]);
    }
    let (mut table, now) = (Table::new(&head), Timestamp::now());
    for item in items {
        let mut row = vec![
            when::shown(item["at"].as_str(), now),
            text(item, "actor"),
            text(item, "action"),
            text(item, "object"),
            text(item, "request_id"),
        ];
        if wide {
            row.extend([text(item, "before"), text(item, "after")]);
        }
        table.row(row);
    }
    output.print(&table, "no such changes");
}

impl Verify {
    fn run(self) -> Outcome {
        let folder = self.folder.map_or_else(|| usual_folder(self.config), Ok)?;
        match verify(&folder) {
            Ok(summary) if self.output.is_json() => out::print_json(&summary),
            Ok(summary) => out::print(&told(&summary)),
            Err(VerifyError::Broken(broken)) => {
                if self.output.is_json() {
                    out::print_json(&serde_json::json!({ "broken": broken }));
                }
                return Err(Failure::other(format!(
                    "{broken}\nhint: the trail is not what was written: keep a copy of the folder, and compare it with a backup"
                )));
            }
            Err(error) => return Err(Failure::other(error.to_string())),
        }
        Ok(())
    }
}

/// Where the node of this machine writes.
fn usual_folder(config: ConfigFlag) -> Outcome<PathBuf> {
    let settings = config.settings().map_err(|problems| Failure::other(problems.to_string()))?;
    Ok(settings.data.join("audit"))
}

fn told(summary: &Summary) -> String {
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
    also(summary.retired, "older records removed as the settings ask");
    also(summary.missing.changes, "changes that were not written (the buffer was full)");
    also(summary.missing.denials, "sampled denials that were not written (the buffer was full)");
    also(summary.cuts, "ends that were not as they were left, such as after a crash");
    also(summary.lost, "records that had been written and were gone at a start");
    also(summary.unfinished_bytes, "bytes of an unfinished line at the end");
    text
}
