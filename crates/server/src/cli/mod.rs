//! The command line.
//!
//! # Layout
//!
//! One file per command; `flags`: the flags for settings; `out`: output; `admin`: the commands over the admin API of a
//! running node.

mod admin;
mod bench;
mod check;
mod completions;
mod config;
mod decide;
mod explain;
mod flags;
mod init;
mod out;
mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::build_info;

/// The exit codes of every command.
const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  mistakes in settings or rules, findings of `check`, a service that could not start or continue
  2  the command line is invalid
  3 to 6  commands over the admin API: refused, not found, conflict, unreachable; see their --help";

const EXAMPLES: &str = "\
Examples:
  tidegate init                       write tidegate.yaml, rules/example.yaml and rules/apps.yaml here
  tidegate check rules                find mistakes and probable mistakes in rules
  tidegate serve                      run the service: gRPC on 8081, HTTP on 8080, admin on 127.0.0.1:6070
  tidegate explain --domain example api_key=ann
                                      explain how a request would be decided
  tidegate config                     show every setting with its value and origin
  tidegate quota set acme --tier pro  give a tenant a tier on a running service
  tidegate usage acme                 show the usage of a tenant
  tidegate top                        show who is limited, live
  tidegate rules push api.yaml        put rules in force on every node
  tidegate audit list --from 24h      list the changes of the last day
  tidegate context use prod           use the node of prod from now on";

/// A rate limiter for APIs.
///
/// Tidegate decides which requests to an API may pass. It implements Envoy's rate limit protocol over gRPC and an HTTP API,
/// with rules in YAML files that are reloaded when they change.
#[derive(Parser)]
#[command(
    name = "tidegate",
    version = build_info::VERSION_AND_COMMIT,
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
    Usage(Box<admin::usage::Usage>),
    Reset(admin::usage::Reset),
    Top(Box<admin::top::Top>),
    Denials(admin::denials::Denials),
    Rules(admin::rules::Rules),
    Switch(admin::switch::Switch),
    Token(admin::token::Token),
    Audit(admin::audit::Audit),
    Context(admin::context::ContextCommand),
    Init(init::Init),
    Bench(bench::Bench),
    Completions(completions::Completions),
    #[command(hide = true)]
    Decide(decide::Decide),
}

/// Runs the command in `args`, of which the first is the name of the program.
pub fn main_with<A>(args: impl IntoIterator<Item = A>) -> ExitCode
where
    A: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    out::set_json(has_json_flag(&args));
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(message) => return print_message(&message),
    };
    match cli.command {
        Command::Serve(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Quota(command) => command.run(),
        Command::Usage(command) => command.run(),
        Command::Reset(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Denials(command) => command.run(),
        Command::Rules(command) => command.run(),
        Command::Switch(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::Context(command) => command.run(),
        Command::Init(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Decide(command) => command.run(),
    }
}

/// Returns whether the arguments contain `--json` or `-o json`, in any spelling. They are examined before they are parsed,
/// because an invalid command line is reported as JSON too. Arguments after `--` are values.
fn has_json_flag(args: &[OsString]) -> bool {
    let words: Vec<&str> =
        args.iter().map_while(|word| word.to_str()).take_while(|word| *word != "--").collect();
    let pairs = words.windows(2).any(|pair| matches!(pair[0], "-o" | "--output") && pair[1] == "json");
    pairs || words.iter().any(|word| matches!(*word, "--json" | "-ojson" | "-o=json" | "--output=json"))
}

/// Prints help, the version, or an error of the command line. Returns the exit code.
fn print_message(message: &clap::Error) -> ExitCode {
    let code = u8::try_from(message.exit_code()).unwrap_or(2);
    if out::is_json_output() && message.use_stderr() {
        let text = message.to_string();
        let text = text.trim().trim_start_matches("error: ");
        out::fail_json(&serde_json::json!({ "kind": "usage", "exit_code": code, "message": text }));
    } else {
        // It does not matter if standard output is closed.
        let _ = message.print();
    }
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn the_json_flag_is_found_in_any_spelling() {
        let asks =
            |line: &str| super::has_json_flag(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for yes in ["t x --json", "t x -o json", "t x -ojson", "t x --output json", "t x --output=json y"] {
            assert!(asks(yes), "{yes}");
        }
        for no in ["t x", "t x -o wide json", "t x -- --json", "t x -o name"] {
            assert!(!asks(no), "{no}");
        }
    }
}
