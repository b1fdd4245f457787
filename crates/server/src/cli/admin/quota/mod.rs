//! `tidegate quota`: tenants, their tiers and overrides.
//!
//! - [`edit`]: the changes of `set`; [`bulk`]: many tenants at once

mod bulk;
mod edit;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::{Value as Json, json};

use self::bulk::{Export, Import};
use self::edit::Edit;
use super::client::{ApiResponse, Call, Client};
use super::confirm::Confirm;
use super::flags::AdminFlags;
use super::input::read;
use super::output::{self, Column, ListOutput, OneOutput, print_body, text};
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
  tidegate quota export > tenants.jsonl     write all tenants, one per line
  tidegate quota import tenants.jsonl       read them again, here or elsewhere";

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

/// Show and change the tiers and overrides of tenants.
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

/// List tenants, sorted by name.
#[derive(Args)]
#[command(visible_alias = "ls", after_long_help = long_help("Examples:\n  tidegate quota list --prefix ac\n  tidegate quota list --all -o name"))]
struct List {
    /// Only tenants of this tier.
    #[arg(long)]
    tier: Option<String>,
    /// Only tenants whose names begin with this text.
    #[arg(long, short = 'q', value_name = "TEXT")]
    prefix: Option<String>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Show the tier, the overrides and the limits of a tenant.
#[derive(Args)]
#[command(after_long_help = long_help("Examples:\n  tidegate quota get acme\n  tidegate quota get acme -o json | jq .limits"))]
struct Get {
    /// The name of the tenant.
    tenant: String,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Set the tier or an override of a tenant, or replace all of them from a file.
///
/// What the flags do not name stays unchanged. An override replaces one with the same domain, descriptor, limit, window and
/// start, or is added. If the tenant is changed by someone else at the same time, nothing is changed.
#[derive(Args)]
#[command(after_help = SET_EXAMPLES, after_long_help = long_help(SET_EXAMPLES))]
struct Set {
    /// The name of the tenant.
    tenant: String,
    #[command(flatten)]
    edit: Edit,
    /// JSON file with the tier and all overrides, which replace the current ones; `-` means standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "edit")]
    file: Option<PathBuf>,
    /// Print the request without sending it.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Delete the tiers and overrides of tenants: the limits of the rules apply to them again. Their usage is kept.
#[derive(Args)]
#[command(visible_alias = "rm", after_long_help = long_help("Examples:\n  tidegate quota delete acme\n  tidegate quota delete acme globex --yes"))]
struct Delete {
    /// The names of the tenants.
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
        let overrides = |item: &Json| item["overrides"].as_array().cloned().unwrap_or_default();
        let which = |item: &Json| {
            let one = |item: &Json| format!("{} {}", text(item, "descriptor"), numbers(item));
            overrides(item).iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let list = output::List {
            name: "tenant",
            columns: vec![
                Column::member("TENANT", "tenant"),
                Column::member("TIER", "tier"),
                Column::new("OVERRIDES", |item| overrides(item).len().to_string()),
                Column::time("UPDATED", "updated_at"),
                Column::member("REVISION", "revision").wide(),
                Column::new("WHICH", which).wide(),
            ],
            empty: "no tenant has a tier or overrides",
        };
        self.paging.print(&client, &self.output, call, &list)
    }
}

/// Prints `500/minute` or `unlimited`.
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
        let response = client.send(Call::get(&["quotas", &self.tenant]))?;
        if self.output.is_json() {
            print_body(&response);
        } else {
            show_one(&response.json()?);
        }
        Ok(())
    }
}

fn show_one(quota: &Json) {
    let now = when::now();
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
        let in_effect = match (item["in_effect"].as_bool(), item["ended"].as_bool()) {
            (_, Some(true)) => "ended",
            (Some(true), _) => "in effect",
            (Some(false), _) => "not in effect",
            (None, _) => "",
        };
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
            None => self.edit.apply(before.as_ref().map(ApiResponse::json).transpose()?.as_ref())?,
        };
        if self.dry_run {
            out::print_json(&body);
            return Ok(());
        }
        let put = Call::new(Method::PUT, &["quotas", &self.tenant]).json(&body);
        // Fails if the tenant was changed since it was read.
        let put = match before.as_ref().map(|before| before.header("etag")) {
            None => put.header(IF_NONE_MATCH, "*"),
            Some(Some(tag)) => put.header(IF_MATCH, tag),
            Some(None) => put,
        };
        let response = client.send(put)?;
        if self.output.is_json() {
            print_body(&response);
        } else {
            let quota = response.json()?;
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

/// Returns the tenant, if it exists.
fn existing(client: &Client, tenant: &str) -> Outcome<Option<ApiResponse>> {
    match client.send(Call::get(&["quotas", tenant])) {
        Ok(response) => Ok(Some(response)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl Delete {
    fn run(self) -> Outcome {
        let names: Vec<String> = self.tenants.iter().map(|tenant| plain(tenant)).collect();
        self.confirm.ask(&format!("delete the tier and overrides of {}", names.join(", ")))?;
        let client = self.admin.client()?;
        each(&self.tenants, |tenant| {
            client.send(Call::new(Method::DELETE, &["quotas", tenant]))?;
            out::print(&format!("{}: deleted\n", plain(tenant)));
            Ok(())
        })
    }
}

/// Returns the body that would set a tenant to a response.
fn to_body(quota: &Json) -> Json {
    json!({ "tier": quota["tier"], "overrides": quota["quotas"]["overrides"] })
}
