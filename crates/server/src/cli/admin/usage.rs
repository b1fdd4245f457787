//! `tidegate usage` and `tidegate reset`: what a tenant has used, and giving it back.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use jiff::Timestamp;
use serde_json::Value as Json;

use super::client::Call;
use super::flags::AdminFlags;
use super::output::{Format, ListOutput, OneOutput, print_body, text};
use super::table::{Table, plain};
use super::{Outcome, finish, long_help, when};
use crate::cli::out;

const USAGE_EXAMPLES: &str = "\
Examples:
  tidegate usage acme
  tidegate usage acme --descriptor 'endpoint:POST /v1/orders'
  tidegate usage acme -o json | jq '.usage[] | select(.remaining == 0)'";

const RESET_EXAMPLES: &str = "\
Examples:
  tidegate reset acme
  tidegate reset acme --descriptor 'endpoint:POST /v1/orders'";

/// Show what a tenant has used of each of its limits. Looking uses nothing.
///
/// Covers the limits that follow from the tenant and from values that rules fix; others are named by
/// --descriptor.
#[derive(Args)]
#[command(after_help = USAGE_EXAMPLES, after_long_help = long_help(USAGE_EXAMPLES))]
pub(in crate::cli) struct Usage {
    /// The tenant's name.
    tenant: String,
    /// The limits of this descriptor: `key:value`, several joined by `|`.
    #[arg(long, value_name = "TEXT")]
    descriptor: Option<String>,
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Give a tenant back what it has used.
#[derive(Args)]
#[command(after_help = RESET_EXAMPLES, after_long_help = long_help(RESET_EXAMPLES))]
pub(in crate::cli) struct Reset {
    /// The tenant's name.
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
        let client = self.admin.client()?;
        let call = Call::get(&["usage", &self.tenant]).query("descriptor", self.descriptor.as_ref());
        let answer = client.send(call)?;
        match self.output.format() {
            Format::Json => print_body(&answer),
            Format::Name => {
                let body = answer.json()?;
                let rules = body["usage"].as_array().into_iter().flatten();
                out::print(&rules.fold(String::new(), |all, item| all + &text(item, "rule") + "\n"));
            }
            format => show(&answer.json()?, format == Format::Wide, &self.output),
        }
        Ok(())
    }
}

fn show(body: &Json, wide: bool, output: &ListOutput) {
    let mut head = vec!["RULE", "DESCRIPTOR", "NAME", "USED", "LIMIT", "REMAINING", "WINDOW ENDS"];
    if wide {
        head.extend(["WINDOW BEGAN", "DOMAIN", "FROM"]);
    }
    let (mut table, now) = (Table::new(&head), Timestamp::now());
    for item in body["usage"].as_array().into_iter().flatten() {
        let cell = |name: &str| text(item, name);
        let time = |name: &str| when::shown(item["window"][name].as_str(), now);
        let mut row = vec![
            cell("rule"),
            cell("descriptor"),
            cell("name"),
            cell("used"),
            cell("limit"),
            cell("remaining"),
            time("end"),
        ];
        if wide {
            row.extend([time("start"), cell("domain"), cell("from")]);
        }
        table.row(row);
    }
    output.print(&table, "no limit follows from this tenant alone; name others with --descriptor");
    if body["scope"] == "node" && !table.is_empty() {
        out::note("counted by this node alone: with the memory store every node counts for itself");
    }
}

impl Reset {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(self.reset())
    }

    fn reset(self) -> Outcome {
        let client = self.admin.client()?;
        let call = Call::new(Method::POST, &["usage", &self.tenant, "reset"]);
        let answer = client.send(call.query("descriptor", self.descriptor.as_ref()))?;
        if self.output.is_json() {
            print_body(&answer);
        } else {
            let number = answer.json()?["reset"].as_u64().unwrap_or(0) as usize;
            out::print(&format!("{}: {} reset\n", plain(&self.tenant), out::count(number, "limit")));
        }
        Ok(())
    }
}
