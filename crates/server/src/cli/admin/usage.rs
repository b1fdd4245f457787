//! `tidegate usage` and `tidegate reset`: the usage of a tenant, and its reset.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::json;

use super::client::Call;
use super::flags::AdminFlags;
use super::output::{Column, Format, List, ListOutput, OneOutput, print_body};
use super::table::plain;
use super::{Outcome, finish, long_help, when};
use crate::cli::out;

const USAGE_EXAMPLES: &str = "\
Examples:
  tidegate usage acme
  tidegate usage acme --descriptor 'endpoint:POST /v1/orders'
  tidegate usage link acme --for 30d       a page that the tenant may see
  tidegate usage acme -o json | jq '.usage[] | select(.remaining == 0)'";

const RESET_EXAMPLES: &str = "\
Examples:
  tidegate reset acme
  tidegate reset acme --descriptor 'endpoint:POST /v1/orders'";

/// Show the usage of a tenant's limits. Nothing is charged.
///
/// Covers the limits that depend only on the tenant and on fixed values in the rules; use --descriptor for others.
#[derive(Args)]
#[command(after_help = USAGE_EXAMPLES, after_long_help = long_help(USAGE_EXAMPLES))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(in crate::cli) struct Usage {
    #[command(subcommand)]
    command: Option<UsageCommand>,
    /// The name of the tenant.
    #[arg(required = true)]
    tenant: Option<String>,
    /// The descriptor of the limits: `key:value`; several are joined by `|`.
    #[arg(long, value_name = "TEXT")]
    descriptor: Option<String>,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

#[derive(Subcommand)]
enum UsageCommand {
    Link(Link),
}

/// Make a link by which a tenant sees its own limits, usage and last denials.
#[derive(Args)]
#[command(after_long_help = long_help(USAGE_EXAMPLES))]
struct Link {
    /// The name of the tenant.
    tenant: String,
    /// How long the link works.
    #[arg(long = "for", value_name = "DURATION", default_value = "30d")]
    lifetime: String,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Reset the usage of a tenant to zero.
#[derive(Args)]
#[command(after_help = RESET_EXAMPLES, after_long_help = long_help(RESET_EXAMPLES))]
pub(in crate::cli) struct Reset {
    /// The name of the tenant.
    tenant: String,
    /// Only the limits of this descriptor.
    #[arg(long, value_name = "TEXT")]
    descriptor: Option<String>,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

impl Usage {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(self.show())
    }

    fn show(self) -> Outcome {
        if let Some(UsageCommand::Link(link)) = self.command {
            return link.create();
        }
        let client = self.admin.client()?;
        let tenant = self.tenant.unwrap_or_default();
        let call = Call::get(&["usage", &tenant]).query("descriptor", self.descriptor.as_ref());
        let response = client.send(call)?;
        if self.output.format() == Format::Json {
            print_body(&response);
            return Ok(());
        }
        let (body, now) = (response.json()?, when::now());
        let window = |header, name: &'static str| {
            Column::new(header, move |item| when::shown(item["window"][name].as_str(), now))
        };
        let list = List {
            name: "rule",
            columns: vec![
                Column::member("RULE", "rule"),
                Column::member("DESCRIPTOR", "descriptor"),
                Column::member("NAME", "name"),
                Column::member("USED", "used"),
                Column::member("LIMIT", "limit"),
                Column::member("REMAINING", "remaining"),
                window("WINDOW ENDS", "end"),
                window("WINDOW BEGAN", "start").wide(),
                Column::member("DOMAIN", "domain").wide(),
                Column::member("FROM", "from").wide(),
            ],
            empty: "no limit depends on this tenant alone; use --descriptor for others",
        };
        let usage = body["usage"].as_array().map_or(&[][..], Vec::as_slice);
        self.output.print(usage, &list);
        if body["scope"] == "node" && !usage.is_empty() && self.output.format() != Format::Name {
            out::note(
                "this is the usage on this node alone: with the memory store, every node counts separately",
            );
        }
        Ok(())
    }
}

impl Link {
    fn create(self) -> Outcome {
        let call = Call::new(Method::POST, &["usage", &self.tenant, "link"]);
        let response = self.admin.client()?.send(call.json(&json!({ "for": self.lifetime })))?;
        if self.output.is_json() {
            print_body(&response);
        } else {
            let body = response.json()?;
            out::print(&format!("{}\n", plain(body["url_path"].as_str().unwrap_or_default())));
            out::note(format_args!(
                "give it to the tenant after the address of the HTTP listener; it works until {}",
                plain(body["expires_at"].as_str().unwrap_or_default())
            ));
        }
        Ok(())
    }
}

impl Reset {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(self.reset())
    }

    fn reset(self) -> Outcome {
        let client = self.admin.client()?;
        let call = Call::new(Method::POST, &["usage", &self.tenant, "reset"]);
        let response = client.send(call.query("descriptor", self.descriptor.as_ref()))?;
        if self.output.is_json() {
            print_body(&response);
        } else {
            let number = response.json()?["reset"].as_u64().unwrap_or(0) as usize;
            out::print(&format!("{}: {} reset\n", plain(&self.tenant), out::count(number, "limit")));
        }
        Ok(())
    }
}
