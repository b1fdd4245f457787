//! `tidegate token`: tokens and their roles.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::client::Call;
use super::confirm::Confirm;
use super::failure::Failure;
use super::flags::AdminFlags;
use super::output::{self, Column, ListOutput, OneOutput, print_body, text, value_name};
use super::table::plain;
use super::{Outcome, each, finish, long_help, when};
use crate::access::Secret;
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate token create billing --role operator --expires-at 90d > billing.token
  tidegate token list
  tidegate token revoke 0123456789abcdef";

/// Create, list and revoke tokens. Needs the role admin.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES), arg_required_else_help = true)]
pub(in crate::cli) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
    Generate(Generate),
}

/// Create a token and print it. It cannot be shown again.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
struct Create {
    /// The purpose of the token, which names it in the audit trail.
    name: String,
    /// The role of the token.
    #[arg(long)]
    role: Role,
    /// When it expires: a time, a date, or 90d for 90 days from now [default: never]
    #[arg(long, value_name = "TIME", value_parser = when::future)]
    expires_at: Option<Timestamp>,
    #[command(flatten)]
    output: OneOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// List tokens, without their secrets.
#[derive(Args)]
#[command(visible_alias = "ls", after_long_help = long_help(EXAMPLES))]
struct List {
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Revoke tokens on every node.
#[derive(Args)]
#[command(visible_alias = "rm", after_long_help = long_help(EXAMPLES))]
struct Revoke {
    /// The IDs of the tokens; see `tidegate token list`.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Generate a token for the setting `admin.token_file` and print it, without a node.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  (umask 077; tidegate token generate > admin.token)")]
struct Generate {}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    /// Ask for decisions, if the service requires a token for that.
    Check,
    /// Read everything but tokens.
    Viewer,
    /// Also change quotas, usage, switches and rules.
    Operator,
    /// Also create and revoke tokens.
    Admin,
}

impl Token {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(match self.command {
            Command::Create(command) => command.run(),
            Command::List(command) => command.run(),
            Command::Revoke(command) => command.run(),
            Command::Generate(command) => command.run(),
        })
    }
}

impl Create {
    fn run(self) -> Outcome {
        let role = value_name(&self.role);
        let mut body = json!({ "name": self.name, "role": role });
        if let Some(time) = self.expires_at {
            body["expires_at"] = json!(time.to_string());
        }
        let response = self.admin.client()?.send(Call::new(Method::POST, &["tokens"]).json(&body))?;
        if self.output.is_json() {
            print_body(&response);
            return Ok(());
        }
        let made = response.json()?;
        // Only the token is printed to standard output, so that it can be redirected to a file.
        out::print(&(text(&made, "token") + "\n"));
        let ends = when::shown(made["expires_at"].as_str(), when::now());
        let ends = if ends.is_empty() { "does not expire".to_owned() } else { format!("expires {ends}") };
        let (name, id) = (plain(&self.name), plain(&text(&made, "id")));
        out::note(format_args!("{name}: {role}, {ends}, id {id}; store the token, it cannot be shown again"));
        Ok(())
    }
}

impl List {
    fn run(self) -> Outcome {
        let response = self.admin.client()?.send(Call::get(&["tokens"]))?;
        let now = when::now();
        let list = output::List {
            name: "id",
            columns: vec![
                Column::member("ID", "id"),
                Column::member("NAME", "name"),
                Column::member("ROLE", "role"),
                Column::new("STATE", |item| state(item, now).to_owned()),
                Column::time("LAST USED", "last_used_at"),
                Column::time("EXPIRES", "expires_at"),
                Column::time("CREATED", "created_at"),
            ],
            empty: "there are no tokens besides those in files of the nodes",
        };
        self.output.print_response(&response, &list)
    }
}

fn state(token: &Json, now: Timestamp) -> &'static str {
    let past = |name: &str| {
        token[name].as_str().and_then(|text| text.parse().ok()).is_some_and(|time: Timestamp| time <= now)
    };
    if token["revoked_at"].is_string() {
        "revoked"
    } else if past("expires_at") {
        "expired"
    } else {
        "valid"
    }
}

impl Revoke {
    fn run(self) -> Outcome {
        let ids: Vec<String> = self.ids.iter().map(|id| plain(id)).collect();
        self.confirm.ask(&format!("revoke {}", ids.join(", ")))?;
        let client = self.admin.client()?;
        each(&self.ids, |id| {
            client.send(Call::new(Method::DELETE, &["tokens", id]))?;
            out::print(&format!("{}: revoked\n", plain(id)));
            Ok(())
        })
    }
}

impl Generate {
    fn run(self) -> Outcome {
        let Self {} = self;
        let token = Secret::generate();
        let token =
            token.map_err(|error| Failure::other(format!("the system has no random bytes: {error}")))?;
        out::print(&(token.reveal() + "\n"));
        Ok(())
    }
}
