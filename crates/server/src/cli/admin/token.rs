//! `tidegate token`: who may use the API.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::client::Call;
use super::confirm::Confirm;
use super::failure::Failure;
use super::flags::AdminFlags;
use super::output::{Format, ListOutput, OneOutput, items, print_body, text};
use super::table::{Table, plain};
use super::{Outcome, each, finish, long_help, when};
use crate::access::Secret;
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate token create billing --role operator --expires-at 90d > billing.token
  tidegate token list
  tidegate token revoke 0123456789abcdef";

/// Make, list and revoke tokens. Needs the role admin.
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

/// Make a token, and print it. It is shown this once.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help(EXAMPLES))]
struct Create {
    /// What it is for; the audit trail names it.
    name: String,
    /// What it may do.
    #[arg(long)]
    role: Role,
    /// When it ends: a time, a date, or 90d from now [default: never]
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

/// Revoke tokens: they count no more, on any node.
#[derive(Args)]
#[command(visible_alias = "rm", after_long_help = long_help(EXAMPLES))]
struct Revoke {
    /// Their ids, as `tidegate token list` shows them.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Make up a token for the setting `admin.token_file`, and print it. Asks no node.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  (umask 077; tidegate token generate > admin.token)")]
struct Generate {}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    /// Ask for decisions, where the service wants a token for that.
    Check,
    /// Look at everything but tokens.
    Viewer,
    /// Change quotas, usage, switches and rules, too.
    Operator,
    /// Make and revoke tokens, too.
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
        let role = match self.role {
            Role::Check => "check",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        };
        let mut body = json!({ "name": self.name, "role": role });
        if let Some(time) = self.expires_at {
            body["expires_at"] = json!(time.to_string());
        }
        let answer = self.admin.client()?.send(Call::new(Method::POST, &["tokens"]).json(&body))?;
        if self.output.is_json() {
            print_body(&answer);
            return Ok(());
        }
        let made = answer.json()?;
        // Alone on standard output, so that it can go straight into a file.
        out::print(&(text(&made, "token") + "\n"));
        let ends = when::shown(made["expires_at"].as_str(), Timestamp::now());
        let ends = if ends.is_empty() { "for good".to_owned() } else { format!("until {ends}") };
        let (name, id) = (plain(&self.name), plain(&text(&made, "id")));
        out::note(format_args!("{name}: {role}, {ends}, id {id}; keep the token, it is not shown again"));
        Ok(())
    }
}

impl List {
    fn run(self) -> Outcome {
        let answer = self.admin.client()?.send(Call::get(&["tokens"]))?;
        if self.output.format() == Format::Json {
            print_body(&answer);
            return Ok(());
        }
        let body = answer.json()?;
        if self.output.format() == Format::Name {
            out::print(&items(&body).iter().fold(String::new(), |all, item| all + &text(item, "id") + "\n"));
            return Ok(());
        }
        let mut table = Table::new(&["ID", "NAME", "ROLE", "STATE", "LAST USED", "EXPIRES", "CREATED"]);
        let now = Timestamp::now();
        for item in items(&body) {
            let time = |name: &str| when::shown(item[name].as_str(), now);
            table.row(vec![
                text(item, "id"),
                text(item, "name"),
                text(item, "role"),
                state(item, now).to_owned(),
                time("last_used_at"),
                time("expires_at"),
                time("created_at"),
            ]);
        }
        self.output.print(&table, "there are no tokens but those in files of the nodes");
        Ok(())
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
