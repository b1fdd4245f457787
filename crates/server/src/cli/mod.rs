//! The command line.
//!
//! # Layout
//!
//! One file per command; `flags` are those that set settings, `out` writes to the terminal; `admin` has the
//! commands that ask a running node.

mod admin;
mod bench;
mod check;
mod completions;
mod config;
mod explain;
mod flags;
mod init;
mod out;
mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// How every command ends.
const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  mistakes in settings or rules, findings of `check`, a service that could not start or go on, or a
     node that refused or could not be reached
  2  the command line is wrong";

const EXAMPLES: &str = "\
Examples:
  tidegate init                       write tidegate.yaml and rules/example.yaml here
  tidegate check rules                look for mistakes in rules, and for what is probably one
  tidegate serve                      answer: gRPC on 8081, HTTP on 8080, admin on 127.0.0.1:6070
  tidegate explain --domain example api_key=ann
                                      say what would become of a request, and why
  tidegate config                     show every setting in force, and where it came from
  tidegate quota set acme --tier pro  give a tenant a tier on a running service
  tidegate usage acme                 what a tenant has used
  tidegate rules push api.yaml        put rules in force on every node
  tidegate audit list --from 24h      who changed what";

/// A rate limiter for every request of an API.
///
/// Tidegate decides which requests may pass. It answers Envoy's rate limit protocol over gRPC and an
/// HTTP API, by rules in YAML files that take effect as soon as they change.
#[derive(Parser)]
#[command(
    name = "tidegate",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}")
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// A further command is a file here, a variant, and a line in `main_with`.
#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Config(config::Config),
    Check(check::Check),
    Explain(Box<explain::Explain>),
    Quota(admin::quota::Quota),
    Usage(admin::usage::Usage),
    Reset(admin::usage::Reset),
    Rules(admin::rules::Rules),
    Switch(admin::switch::Switch),
    Token(admin::token::Token),
    Audit(admin::audit::Audit),
    Init(init::Init),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

/// Runs the command that `args` ask for; the first is the program's name.
pub fn main_with<A>(args: impl IntoIterator<Item = A>) -> ExitCode
where
    A: Into<OsString> + Clone,
{
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(message) => {
            // Help and version are messages, too; where they cannot be written, nobody reads them.
            let _ = message.print();
            return ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2));
        }
    };
    match cli.command {
        Command::Serve(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Quota(command) => command.run(),
        Command::Usage(command) => command.run(),
        Command::Reset(command) => command.run(),
        Command::Rules(command) => command.run(),
        Command::Switch(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Init(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Completions(command) => command.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
