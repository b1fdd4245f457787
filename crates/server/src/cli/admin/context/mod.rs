//! `tidegate context`: names for nodes and how to ask them.
//!
//! - [`store`]: the file they are kept in

pub(super) mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use self::store::{Contexts, parse_name};
use super::client::Base;
use super::confirm::Confirm;
use super::failure::Failure;
use super::output::{Format, ListOutput};
use super::table::Table;
use super::{EXIT_CODES, Outcome, finish};
use crate::cli::out;

const EXAMPLES: &str = "\
Examples:
  tidegate context set prod --admin https://tidegate.internal:6070 --token-file ~/.tidegate-prod --ca ca.pem
  tidegate context set here --admin 127.0.0.1:6070 --use
  tidegate context use prod                every command asks prod from now on
  tidegate quota list --context here       this one asks another
  TIDEGATE_CONTEXT=here tidegate usage acme
  tidegate context list";

const WHERE: &str = "\
Where they are kept:
  $XDG_CONFIG_HOME/tidegate/contexts.json, else ~/.config/tidegate/contexts.json, readable by you alone.
  It names files with tokens and holds no token itself.

Which one a command asks:
  --admin, else --context, else TIDEGATE_ADMIN, else TIDEGATE_CONTEXT, else the one in use, else the node
  at http://127.0.0.1:6070. With --admin or TIDEGATE_ADMIN no context is used, so that its token goes
  nowhere else. --token, --token-file, --ca, --cert and --key replace what the context has.";

fn long() -> String {
    format!("{EXAMPLES}\n\n{WHERE}\n\n{EXIT_CODES}")
}

/// Name nodes and how to ask them, and choose the one that commands ask.
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

/// List contexts; the one in use has a `*`.
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

/// Make commands ask this context from now on.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long())]
struct Use {
    /// The context's name.
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// Use no context any more.
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

/// Make a context, or change one. What is not given stays as it is.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long())]
struct Set {
    /// The context's name.
    #[arg(value_parser = parse_name)]
    name: String,
    /// The node's admin address: `host:port`, a URL, or `unix:/path`; a new context needs it.
    #[arg(long, visible_alias = "url", value_name = "URL", value_parser = Base::parse)]
    admin: Option<Base>,
    /// File with the token; it is read whenever the context is used.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authorities that the node's certificate is trusted by, PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate to show to the node, PEM; needs --key.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of that certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Also make commands ask it from now on.
    #[arg(long = "use")]
    and_use: bool,
}

/// Forget a context. Files that it names stay.
#[derive(Args)]
#[command(visible_alias = "rm", after_help = EXAMPLES, after_long_help = long())]
struct Delete {
    /// The context's name.
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
        match self.output.format() {
            Format::Json => out::print_json(&json!(all)),
            Format::Name => {
                out::print(&all.contexts.keys().fold(String::new(), |text, name| text + name + "\n"));
            }
            format => {
                let mut head = vec!["CURRENT", "NAME", "ADMIN", "TOKEN FILE"];
                if format == Format::Wide {
                    head.extend(["CA", "CERT", "KEY"]);
                }
                let mut table = Table::new(&head);
                let file = |file: &Option<PathBuf>| {
                    file.as_ref().map_or_else(String::new, |file| file.display().to_string())
                };
                for (name, context) in &all.contexts {
                    let current = if all.current.as_ref() == Some(name) { "*" } else { "" };
                    let mut row = vec![
                        current.to_owned(),
                        name.clone(),
                        context.admin.clone(),
                        file(&context.token_file),
                    ];
                    if format == Format::Wide {
                        row.extend([file(&context.ca), file(&context.cert), file(&context.key)]);
                    }
                    table.row(row);
                }
                self.output.print(&table, "there are no contexts yet: `tidegate context set` makes one");
            }
        }
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
            out::print(&format!("{name}: in use; commands ask {admin}\n"));
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

/// A path that holds wherever a command is run. That the file is missing is told, and is no mistake yet.
fn absolute(file: &Path) -> Outcome<PathBuf> {
    let path = std::path::absolute(file)
        .map_err(|error| Failure::other(format!("cannot find {}: {error}", file.display())))?;
    if !path.exists() {
        out::note(format_args!("warning: there is no file {} yet", path.display()));
    }
    Ok(path)
}

impl Delete {
    fn run(self) -> Outcome {
        let mut all = Contexts::load()?;
        all.find(&self.name)?;
        self.confirm.ask(&format!("forget the context {}", self.name))?;
        all.contexts.remove(&self.name);
        if all.current.as_ref() == Some(&self.name) {
            all.current = None;
        }
        all.save()?;
        out::print(&format!("{}: deleted\n", self.name));
        Ok(())
    }
}
