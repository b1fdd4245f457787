//! `tidegate context`: named nodes, with the token and certificates for each.
//!
//! - [`store`]: the file of the contexts

pub(super) mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use self::store::{Context, Contexts, parse_name};
use super::client::NodeAddress;
use super::confirm::Confirm;
use super::failure::Failure;
use super::output::{self, Column, Format, ListOutput};
use super::{EXIT_CODES, Outcome, finish};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate context set prod --admin https://tidegate.internal:6070 --token-file ~/.tidegate-prod --ca ca.pem
  tidegate context set here --admin 127.0.0.1:6070 --use
  tidegate context use prod                use prod for all commands from now on
  tidegate quota list --context here       use another context for this command
  TIDEGATE_CONTEXT=here tidegate usage acme
  tidegate context list";

const WHERE: &str = "\
File:
  $XDG_CONFIG_HOME/tidegate/contexts.json, else ~/.config/tidegate/contexts.json, which only you can read.
  It contains the names of token files, not the tokens.

Precedence:
  --admin, else --context, else TIDEGATE_ADMIN, else TIDEGATE_CONTEXT, else the context in use, else the node
  at http://127.0.0.1:6070. With --admin or TIDEGATE_ADMIN no context is used, so that its token is not sent
  to another node. --token, --token-file, --ca, --cert and --key replace the values of the context.";

fn long() -> String {
    format!("{EXAMPLES}\n\n{WHERE}\n\n{EXIT_CODES}")
}

/// Manage contexts: named nodes, with the token and certificates for each.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long(), arg_required_else_help = true)]
pub(in crate::cli) struct ContextCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Current(Current),
    Use(Use),
    Set(Set),
    Delete(Delete),
}

/// List contexts; the one in use is marked with `*`.
#[derive(Args)]
#[command(visible_alias = "ls", after_help = EXAMPLES, after_long_help = long())]
struct List {
    #[command(flatten)]
    output: ListOutput,
}

/// Print the name of the context in use.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long())]
struct Current {}

/// Use a context for all commands from now on.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long())]
struct Use {
    /// The name of the context.
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// Use no context.
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

/// Create or change a context. Values that are not given stay unchanged.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long())]
struct Set {
    /// The name of the context.
    #[arg(value_parser = parse_name)]
    name: String,
    /// The admin address of the node: `host:port`, a URL, or `unix:/path`; required for a new context.
    #[arg(long, visible_alias = "url", value_name = "URL", value_parser = NodeAddress::parse)]
    admin: Option<NodeAddress>,
    /// The file with the token, which is read whenever the context is used.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The file with the certificate authorities to trust, PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The file with the client certificate, PEM; needs --key.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The file with the private key of that certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Also use it from now on.
    #[arg(long = "use")]
    and_use: bool,
}

/// Delete a context. The files that it names are kept.
#[derive(Args)]
#[command(visible_alias = "rm", after_help = EXAMPLES, after_long_help = long())]
struct Delete {
    /// The name of the context.
    name: String,
    #[command(flatten)]
    confirm: Confirm,
}

impl ContextCommand {
    pub(in crate::cli) fn run(self) -> ExitCode {
        finish(match self.command {
            Command::List(command) => command.run(),
            Command::Current(command) => command.run(),
            Command::Use(command) => command.run(),
            Command::Set(command) => command.run(),
            Command::Delete(command) => command.run(),
        })
    }
}

impl List {
    fn run(self) -> Outcome {
        let all = Contexts::load()?;
        if self.output.format() == Format::Json {
            out::print_json(&json!(all));
            return Ok(());
        }
        let item = |(name, context): (&String, &Context)| {
            let mut item = json!(context);
            item["name"] = json!(name);
            item["current"] = json!(if all.current.as_ref() == Some(name) { "*" } else { "" });
            item
        };
        let list = output::List {
            name: "name",
            columns: vec![
                Column::member("CURRENT", "current"),
                Column::member("NAME", "name"),
                Column::member("ADMIN", "admin"),
                Column::member("TOKEN FILE", "token_file"),
                Column::member("CA", "ca").wide(),
                Column::member("CERT", "cert").wide(),
                Column::member("KEY", "key").wide(),
            ],
            empty: "there are no contexts yet: create one with `tidegate context set`",
        };
        self.output.print(&all.contexts.iter().map(item).collect::<Vec<_>>(), &list);
        Ok(())
    }
}

impl Current {
    fn run(self) -> Outcome {
        let Self {} = self;
        let all = Contexts::load()?;
        let current = all.current.ok_or_else(|| {
            Failure::Missing("no context is in use; choose one with `tidegate context use NAME`".to_owned())
        })?;
        out::print(&(current + "\n"));
        Ok(())
    }
}

impl Use {
    fn run(self) -> Outcome {
        let mut all = Contexts::load()?;
        if let Some(name) = &self.name {
            let admin = all.find(name)?.admin.clone();
            all.current = Some(name.clone());
            all.save()?;
            out::print(&format!("{name}: in use; commands use {admin}\n"));
        } else {
            all.current = None;
            all.save()?;
            out::print("no context is in use\n");
        }
        Ok(())
    }
}

impl Set {
    fn run(self) -> Outcome {
        let mut all = Contexts::load()?;
        let known = all.contexts.contains_key(&self.name);
        let mut context = all.contexts.get(&self.name).cloned().unwrap_or_default();
        match self.admin {
            Some(admin) => context.admin = admin.to_string(),
            None if !known => return Err(Failure::usage("a new context needs --admin URL")),
            None => {}
        }
        for (kept, given) in [
            (&mut context.token_file, self.token_file),
            (&mut context.ca, self.ca),
            (&mut context.cert, self.cert),
            (&mut context.key, self.key),
        ] {
            if let Some(file) = given {
                *kept = Some(absolute(&file)?);
            }
        }
        let admin = context.admin.clone();
        all.contexts.insert(self.name.clone(), context);
        if self.and_use {
            all.current = Some(self.name.clone());
        }
        let path = all.save()?;
        let state = if all.current.as_ref() == Some(&self.name) { ", in use" } else { "" };
        out::print(&format!("{}: {admin}{state} ({})\n", self.name, path.display()));
        Ok(())
    }
}

/// Returns an absolute path. A missing file is not an error yet.
fn absolute(file: &Path) -> Outcome<PathBuf> {
    let path = std::path::absolute(file)
        .map_err(|error| Failure::other(format!("cannot find {}: {error}", file.display())))?;
    if !path.exists() {
        out::note(format_args!("warning: the file {} does not exist yet", path.display()));
    }
    Ok(path)
}

impl Delete {
    fn run(self) -> Outcome {
        let mut all = Contexts::load()?;
        all.find(&self.name)?;
        self.confirm.ask(&format!("delete the context {}", self.name))?;
        all.contexts.remove(&self.name);
        if all.current.as_ref() == Some(&self.name) {
            all.current = None;
        }
        all.save()?;
        out::print(&format!("{}: deleted\n", self.name));
        Ok(())
    }
}
