//! `tidegate quota`: tenants, their tiers and overrides.
//!
//! - [`edit`]: what `set` makes of what is there; [`bulk`]: all of them at once

mod bulk;
mod edit;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use self::bulk::{Export, Import};
use self::edit::Edit;
use super::client::{Answer, Call, Client};
use super::confirm::Confirm;
use super::flags::AdminFlags;
use super::input::read;
use super::output::{Format, ListOutput, OneOutput, print_body, text};
use super::pages::Paging;
use super::table::{Table, plain};
use super::{Outcome, each, finish, long_help, when};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate quota list --tier pro
  tidegate quota get acme
  tidegate quota set acme --tier enterprise
  tidegate quota set acme --requests 500 --per minute --expires-at 30d
  tidegate quota delete acme
  tidegate quota export > tenants.jsonl     all of them, a line each
  tidegate quota import tenants.jsonl       and back, here or elsewhere";

const SET_EXAMPLES: &str = "\
Examples:
  tidegate quota set acme --tier enterprise
  tidegate quota set acme --requests 500 --per minute --burst 50
  tidegate quota set acme --descriptor 'endpoint:POST /v1/orders' --requests 20 --per minute
  tidegate quota set acme --requests 9000 --per hour --effective-at 2026-12-24 --expires-at 30d
  tidegate quota set acme --override 500/minute --override 'endpoint:GET /search=unlimited'
  tidegate quota set acme --remove 'endpoint:POST /v1/orders'
  tidegate quota get acme -o json | jq '{tier, overrides: .quotas.overrides}' > acme.json
  tidegate quota set acme -f acme.json";

/// Show and change what tenants may do: their tiers and overrides.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES), arg_required_else_help = true)]
pub(in crate::cli) struct Quota {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Get(Get),
    Set(Box<Set>),
    Delete(Delete),
    Export(Box<Export>),
    Import(Box<Import>),
}

/// List tenants in the order of their names.
#[derive(Args)]
#[command(visible_alias = "ls", after_long_help = long_help("Examples:\n  tidegate quota list --prefix ac\n  tidegate quota list --all -o name"))]
struct List {
    /// Those of a tier only.
    #[arg(long)]
    tier: Option<String>,
    /// Those whose names begin so only.
    #[arg(long, short = 'q', value_name = "TEXT")]
    prefix: Option<String>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Show a tenant: its tier, its overrides, and every limit that applies to it.
#[derive(Args)]
#[command(after_long_help = long_help("Examples:\n  tidegate quota get acme\n  tidegate quota get acme -o json | jq .limits"))]
struct Get {
    /// The tenant's name.
    tenant: String,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Set a tenant's tier, or one of its overrides; or all of both from a file.
///
/// What the flags do not name stays as it is. An override takes the place of one with the same domain,
/// descriptor, limit, window and start, and is added where there is none. If somebody else changes the tenant
/// at the same time, nothing is changed.
#[derive(Args)]
#[command(after_help = SET_EXAMPLES, after_long_help = long_help(SET_EXAMPLES))]
struct Set {
    /// The tenant's name.
    tenant: String,
    #[command(flatten)]
    edit: Edit,
    /// JSON with the tier and all overrides, in place of those there are; `-` is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "edit")]
    file: Option<PathBuf>,
    /// Print what would be sent, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Forget tenants: the rules' own limits hold for them again. What they used stays counted.
#[derive(Args)]
#[command(visible_alias = "rm", after_long_help = long_help("Examples:\n  tidegate quota delete acme\n  tidegate quota delete acme globex --yes"))]
struct Delete {
    /// Their names.
    #[arg(required = true, value_name = "TENANT")]
    tenants: Vec<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    admin: AdminFlags,
}

impl Quota {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(match self.command {
            Command::List(command) => command.run(),
            Command::Get(command) => command.run(),
            Command::Set(command) => command.run(),
            Command::Delete(command) => command.run(),
            Command::Export(command) => command.run(),
            Command::Import(command) => command.run(),
        })
    }
}

impl List {
    fn run(self) -> Outcome {
        let client = self.admin.client()?;
        let call =
            || Call::get(&["quotas"]).query("tier", self.tier.as_ref()).query("q", self.prefix.as_ref());
        self.paging.print(&client, &self.output, call, |items| show_list(items, &self.output))
    }
}

fn show_list(items: &[Json], output: &ListOutput) {
    if output.format() == Format::Name {
        out::print(&items.iter().fold(String::new(), |all, item| all + &text(item, "tenant") + "\n"));
        return;
    }
    let wide = output.format() == Format::Wide;
    let mut head = vec!["TENANT", "TIER", "OVERRIDES", "UPDATED"];
    if wide {
        head.extend(["REVISION", "WHICH"]);
    }
    let (mut table, now) = (Table::new(&head), Timestamp::now());
    for item in items {
        let overrides = item["overrides"].as_array().map_or(&[][..], Vec::as_slice);
        let updated = when::shown(item["updated_at"].as_str(), now);
        let mut row = vec![text(item, "tenant"), text(item, "tier"), overrides.len().to_string(), updated];
        if wide {
            let which: Vec<String> = overrides
                .iter()
                .map(|item| format!("{} {}", text(item, "descriptor"), numbers(item)))
                .collect();
            row.extend([text(item, "revision"), which.join(", ")]);
        }
        table.row(row);
    }
    output.print(&table, "no tenant has a tier or overrides of its own");
}

/// `500/minute`, `unlimited`.
fn numbers(limit: &Json) -> String {
    if limit["unlimited"] == true {
        return "unlimited".to_owned();
    }
    let unit = [text(limit, "unit"), text(limit, "duration")].concat();
    format!("{}/{unit}", text(limit, "requests_per_unit")).trim_end_matches('/').to_owned()
}

impl Get {
    fn run(self) -> Outcome {
        let client = self.admin.client()?;
        let answer = client.send(Call::get(&["quotas", &self.tenant]))?;
        if self.output.is_json() {
            print_body(&answer);
        } else {
            show_one(&answer.json()?);
        }
        Ok(())
    }
}

fn show_one(quota: &Json) {
    let now = Timestamp::now();
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { plain(&text) };
    let mut shown = String::new();
    let _ = writeln!(shown, "tenant    {}", plain(&text(quota, "tenant")));
    let _ = writeln!(shown, "tier      {}", or_none(text(quota, "tier")));
    let _ = writeln!(shown, "updated   {}", when::shown(quota["updated_at"].as_str(), now));
    let _ = writeln!(shown, "revision  {}", text(quota, "revision"));
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let mut overrides =
        Table::new(&["DESCRIPTOR", "LIMIT", "NAME", "BURST", "ALGORITHM", "DOMAIN", "BEGINS", "ENDS", "NOW"]);
    for item in list(&quota["quotas"]["overrides"]) {
        let time = |name: &str| when::shown(item[name].as_str(), now);
        let in_effect =
            item["in_effect"].as_bool().map_or("", |yes| if yes { "in effect" } else { "not in effect" });
        overrides.row(vec![
            text(&item, "descriptor"),
            numbers(&item),
            text(&item, "limit"),
            text(&item, "burst"),
            text(&item, "algorithm"),
            text(&item, "domain"),
            time("effective_at"),
            time("expires_at"),
            in_effect.to_owned(),
        ]);
    }
    let mut limits =
        Table::new(&["DOMAIN", "RULE", "DESCRIPTOR", "NAME", "LIMIT", "BURST", "ALGORITHM", "FROM"]);
    for item in list(&quota["limits"]) {
        let cell = |name: &str| text(&item, name);
        limits.row(vec![
            cell("domain"),
            cell("rule"),
            cell("descriptor"),
            cell("name"),
            numbers(&item),
            cell("burst"),
            cell("algorithm"),
            cell("from"),
        ]);
    }
    for (title, table) in [("overrides", overrides), ("limits in force", limits)] {
        if table.is_empty() {
            let _ = writeln!(shown, "\n{title}: none");
        } else {
            let _ = write!(shown, "\n{title}:\n{}", table.render(true));
        }
    }
    out::print(&shown);
}

impl Set {
    fn run(self) -> Outcome {
        self.edit.check(self.file.is_some())?;
        let client = self.admin.client()?;
        let before = existing(&client, &self.tenant)?;
        let body = match &self.file {
            Some(file) => edit::whole(&read(file)?)?,
            None => self.edit.apply(before.as_ref().map(Answer::json).transpose()?.as_ref())?,
        };
        if self.dry_run {
            out::print_json(&body);
            return Ok(());
        }
        let put = Call::new(Method::PUT, &["quotas", &self.tenant]).json(&body);
        // What was looked at is what is changed.
        let put = match before.as_ref().map(|before| before.header("etag")) {
            None => put.header(IF_NONE_MATCH, "*"),
            Some(Some(tag)) => put.header(IF_MATCH, tag),
            Some(None) => put,
        };
        let answer = client.send(put)?;
        if self.output.is_json() {
            print_body(&answer);
        } else {
            let quota = answer.json()?;
            let tier = text(&quota, "tier");
            let tier = if tier.is_empty() { "no tier".to_owned() } else { format!("tier {}", plain(&tier)) };
            let overrides = quota["quotas"]["overrides"].as_array().map_or(0, Vec::len);
            let (tenant, revision) = (plain(&self.tenant), text(&quota, "revision"));
            let overrides = out::count(overrides, "override");
            out::print(&format!("{tenant}: {tier}, {overrides}, revision {revision}\n"));
        }
        Ok(())
    }
}

/// The tenant as it is, if it is.
fn existing(client: &Client, tenant: &str) -> Outcome<Option<Answer>> {
    match client.send(Call::get(&["quotas", tenant])) {
        Ok(answer) => Ok(Some(answer)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl Delete {
    fn run(self) -> Outcome {
        let names: Vec<String> = self.tenants.iter().map(|tenant| plain(tenant)).collect();
        self.confirm.ask(&format!("forget tier and overrides of {}", names.join(", ")))?;
        let client = self.admin.client()?;
        each(&self.tenants, |tenant| {
            client.send(Call::new(Method::DELETE, &["quotas", tenant]))?;
            out::print(&format!("{}: deleted\n", plain(tenant)));
            Ok(())
        })
    }
}

/// What of an answer can be put again.
fn puttable(quota: &Json) -> Json {
    json!({ "tier": quota["tier"], "overrides": quota["quotas"]["overrides"] })
}
