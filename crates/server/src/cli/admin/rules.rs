//! `tidegate rules`: rule sets of the catalog, and their versions.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use http::header::IF_MATCH;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::client::{Answer, Call};
use super::confirm::Confirm;
use super::failure::Failure;
use super::flags::AdminFlags;
use super::output::{Format, ListOutput, OneOutput, items, print_body, text};
use super::pages::Paging;
use super::quota::read;
use super::table::{Table, plain};
use super::{Outcome, finish, long_help, when};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate rules list
  tidegate rules push -f rules/api.yaml -m 'twice the search limit'
  tidegate rules push -f rules/api.yaml --dry-run     what would change
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

/// Put rule files in force on every node, each as a new version of its domain.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
struct Push {
    /// A rule file; `-` is standard input. Can be given several times.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The domain [default: the one that the file names]
    #[arg(long)]
    domain: Option<String>,
    /// Why, for those who read the history.
    #[arg(short = 'm', long, value_name = "TEXT")]
    comment: Option<String>,
    /// Only if this is the version in force.
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Show what changed between versions, or what a file would change.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
struct Diff {
    /// The domain [default: the one that the file names]
    #[arg(required_unless_present = "file")]
    domain: Option<String>,
    /// Compare this file with what is in force; `-` is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["from", "to"])]
    file: Option<PathBuf>,
    /// The older version [default: the one before]
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// The newer version [default: the one in force]
    #[arg(long, value_name = "N")]
    to: Option<u64>,
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

/// Go back to the rules of an earlier version, as a new one.
#[derive(Args)]
#[command(after_long_help = long_help(EXAMPLES))]
struct Rollback {
    /// The domain.
    domain: String,
    /// The version to go back to.
    version: u64,
    /// Why, for those who read the history.
    #[arg(short = 'm', long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Take a domain's rules out of force. Their history stays.
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

/// The domain that a rule file names: it is a line of its own, not indented.
fn domain_of(rules: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(rules);
    let value = text.lines().find_map(|line| line.strip_prefix("domain:"))?.trim();
    let value = match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next()?,
        _ => value.split(" #").next()?.trim(),
    };
    (!value.is_empty()).then(|| value.to_owned())
}

fn domain_or(given: Option<&String>, rules: &[u8]) -> Outcome<String> {
    given.cloned().or_else(|| domain_of(rules)).ok_or_else(|| {
        Failure::other("the file names no domain; begin it with `domain: NAME`, or say which it is for")
    })
}

impl Push {
    fn run(self) -> Outcome {
        if self.files.len() > 1
            && (self.domain.is_some() || self.if_version.is_some() || self.output.is_json())
        {
            return Err(Failure::usage(
                "--domain, --if-version and JSON go with one file; push the files one by one",
            ));
        }
        let client = self.admin.client()?;
        for file in &self.files {
            let rules = read(file)?;
            let domain = domain_or(self.domain.as_ref(), &rules)?;
            let mut call = Call::new(Method::PUT, &["rules", &domain])
                .query("comment", self.comment.as_ref())
                .query("dry_run", self.dry_run.then_some(true))
                .yaml(rules);
            if let Some(version) = self.if_version {
                call = call.header(IF_MATCH, format!("\"{version}\""));
            }
            let answer = client.send(call)?;
            if self.output.is_json() {
                print_body(&answer);
            } else {
                show_change(&answer)?;
            }
        }
        Ok(())
    }
}

/// The lines that changed, and what that comes to.
fn show_change(answer: &Answer) -> Outcome {
    let change = answer.json()?;
    let count = |name: &str| change[name].as_array().map_or(0, Vec::len);
    let parts: Vec<String> = ["added", "removed", "changed"]
        .into_iter()
        .filter(|name| count(name) > 0)
        .map(|name| format!("{} {name}", out::count(count(name), "rule")))
        .collect();
    let parts = if parts.is_empty() { "no rule is another".to_owned() } else { parts.join(", ") };
    let domain = plain(&text(&change, "domain"));
    let state = if change["dry_run"] == true {
        "nothing was changed (dry run)".to_owned()
    } else {
        format!("version {}", text(&change, "version"))
    };
    out::print(&lines(&text(&change, "diff")));
    out::print(&format!("{domain}: {state}; {parts}\n"));
    for warning in change["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        out::note(format_args!("warning: {}", plain(warning)));
    }
    Ok(())
}

/// Lines that others wrote, without what would do something to the terminal.
fn lines(text: &str) -> String {
    text.lines().fold(String::new(), |all, line| {
        all + &line.split('\t').map(plain).collect::<Vec<_>>().join("\t") + "\n"
    })
}

impl Diff {
    fn run(self) -> Outcome {
        let client = self.admin.client()?;
        let Some(file) = &self.file else {
            let domain = self.domain.unwrap_or_default();
            let call = Call::get(&["rules", &domain, "diff"]).query("from", self.from).query("to", self.to);
            let answer = client.send(call)?;
            out::print(&lines(&String::from_utf8_lossy(&answer.body)));
            return Ok(());
        };
        let rules = read(file)?;
        let domain = domain_or(self.domain.as_ref(), &rules)?;
        let call = Call::new(Method::PUT, &["rules", &domain]).query("dry_run", Some(true)).yaml(rules);
        out::print(&lines(&text(&client.send(call)?.json()?, "diff")));
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

impl Rollback {
    fn run(self) -> Outcome {
        let mut body = json!({ "version": self.version });
        if let Some(comment) = self.comment {
            body["comment"] = json!(comment);
        }
        let call = Call::new(Method::POST, &["rules", &self.domain, "rollback"]).json(&body);
        let answer = self.admin.client()?.send(call)?;
        if self.output.is_json() {
            print_body(&answer);
            return Ok(());
        }
        show_change(&answer)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_read_from_a_rule_file() {
        let of = |text: &str| domain_of(text.as_bytes());
        assert_eq!(of("# rules\ndomain: api # ours\ndescriptors: []\n").as_deref(), Some("api"));
        assert_eq!(of("domain: \"a b\"\n").as_deref(), Some("a b"));
        assert_eq!(of("domain: 'x#y' # z\n").as_deref(), Some("x#y"));
        assert_eq!(of("descriptors:\n  - domain: no\n"), None);
        assert_eq!(of("domain:\n"), None);
    }
}
