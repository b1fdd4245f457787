//! Commands over the admin API of a running node.
//!
//! # Layout
//!
//! - [`flags`]: where the node is and who asks; [`client`]: the one HTTP client; [`tls`]: its trust
//! - [`failure`]: what went wrong, for people
//! - [`output`]: how to print; [`table`], [`when`]: columns and times
//! - [`confirm`]: asking before something is gone; [`input`]: files to send
//! - [`pages`]: lists that come in pages
//! - [`context`]: names for nodes
//! - [`quota`], [`usage`], [`rules`], [`switch`], [`token`], [`audit`]: the commands

pub(super) mod audit;
pub(super) mod client;
mod confirm;
pub(super) mod context;
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
pub(super) mod usage;
mod when;

use std::process::ExitCode;

use self::failure::Failure;
use super::out;

/// What a command came to. Most have nothing more to say.
pub(super) type Outcome<T = ()> = Result<T, Failure>;

/// Says what went wrong, if anything; the exit code of that.
pub(super) fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if out::speaks_json() {
                out::fail_json(&failure.json());
            } else {
                let _ = out::fail(&failure);
            }
            ExitCode::from(failure.kind().code())
        }
    }
}

/// Does this for each of several things: one that fails does not keep it from the others, and every failure is
/// told with the name of what it is about. It ends at once where none of the others could succeed either.
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

/// How the commands end.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something else failed: a file that cannot be read, mistakes in settings, an answer that makes no sense
  2  the command line is wrong
  3  the node refused: no valid token, not the role for it, or mistakes in what was sent
  4  there is no such thing
  5  conflict: somebody else changed it meanwhile, or it belongs to somebody else
  6  the node could not be reached, or cannot do it now because its database is away: try again
With --json or -o json, what went wrong is JSON on standard error, one object on a line:
  {\"error\": {\"kind\": \"not_found\", \"exit_code\": 4, \"message\": …}}, with status, file, errors and
  retry_after where they are known.";

/// Where a node and its token are looked for.
const REACHING: &str = "\
The node:
  --admin, else --context, else TIDEGATE_ADMIN, else TIDEGATE_CONTEXT, else the context in use (see
  `tidegate context`), else http://127.0.0.1:6070. `host:port` alone is http. An https:// address is
  trusted by --ca, else by the system's authorities; unix:/path is a socket.

The token:
  --token, else --token-file, else that of --context, else TIDEGATE_TOKEN, else TIDEGATE_TOKEN_FILE, else
  that of the context in use. Without any, a node on this machine is asked with the token it made for
  itself, `admin-token` in its data folder (setting `data`). Other users of this machine can read command
  lines: prefer a file or a variable.";

/// The end of a command's long help.
fn long_help(examples: &str) -> String {
    format!("{examples}\n\n{REACHING}\n\n{EXIT_CODES}")
}
