//! Commands over the admin API of a running node.
//!
//! # Layout
//!
//! - [`flags`]: address, token and certificates; [`client`]: the HTTP client; [`tls`]: its TLS configuration
//! - [`failure`]: failures and exit codes
//! - [`output`]: output formats; [`table`], [`when`]: tables and times
//! - [`confirm`]: asks for confirmation; [`input`]: input files
//! - [`pages`]: lists in pages
//! - [`context`]: named nodes
//! - [`quota`], [`usage`], [`top`], [`denials`], [`rules`], [`switch`], [`token`], [`audit`]: the commands

pub(super) mod audit;
pub(super) mod client;
mod confirm;
pub(super) mod context;
pub(super) mod denials;
pub(super) mod failure;
pub(super) mod flags;
mod input;
mod output;
mod pages;
pub(super) mod quota;
pub(super) mod rules;
pub(super) mod switch;
pub(super) mod table;
mod tls;
pub(super) mod token;
pub(super) mod top;
pub(super) mod usage;
mod when;

use std::process::ExitCode;

use self::failure::Failure;
use super::out;

/// The result of a command.
pub(super) type Outcome<T = ()> = Result<T, Failure>;

/// Prints the failure of a command, if there is one. Returns the exit code.
pub(super) fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if out::is_json_output() {
                out::fail_json(&failure.json());
            } else {
                let _ = out::fail(&failure);
            }
            ExitCode::from(failure.kind().code())
        }
    }
}

/// Runs an action for each name. Continues after a failure, unless it would affect the others too. Returns all failures,
/// each with its name.
fn each(names: &[String], mut what: impl FnMut(&String) -> Outcome) -> Outcome {
    let mut failures = Vec::new();
    for name in names {
        match what(name) {
            Ok(()) => {}
            Err(failure) if failure.is_about_node() => {
                failures.push(failure);
                break;
            }
            Err(failure) if names.len() > 1 => failures.push(failure.about(&table::plain(name))),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::all(failures)) }
}

/// The exit codes of these commands.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  another failure: a file that cannot be read, mistakes in settings, an invalid response
  2  the command line is invalid
  3  the node refused: no valid token, a role that does not permit it, or invalid input
  4  not found
  5  conflict: it was changed in the meantime, or has another owner
  6  the node could not be reached, or its database is unreachable: try again
With --json or -o json, failures are JSON on standard error, one object per line:
  {\"error\": {\"kind\": \"not_found\", \"exit_code\": 4, \"message\": …}}, with status, file, errors and
  retry_after where they are known.";

/// How the node and its token are found.
const CONNECTION: &str = "\
The node:
  --admin, else --context, else TIDEGATE_ADMIN, else TIDEGATE_CONTEXT, else the context in use (see
  `tidegate context`), else http://127.0.0.1:6070. `host:port` alone means http. The certificate of an
  https:// address is verified with --ca, else with the authorities of the system; unix:/path is a socket.

The token:
  --token, else --token-file, else that of --context, else TIDEGATE_TOKEN, else TIDEGATE_TOKEN_FILE, else
  that of the context in use, else for a node on this machine the token that it generated for itself,
  `admin-token` in its data folder (setting `data`). Other users of this machine can read command lines:
  prefer a file or a variable.";

/// Returns the end of a command's long help.
fn long_help(examples: &str) -> String {
    format!("{examples}\n\n{CONNECTION}\n\n{EXIT_CODES}")
}
