//! Commands over the admin API of a running node.
//!
//! # Layout
//!
//! - [`flags`]: where the node is and who asks; [`client`]: the one HTTP client; [`tls`]: its trust
//! - [`failure`]: what went wrong, for people
//! - [`output`]: how to print; [`table`], [`when`]: columns and times
//! - [`confirm`]: asking before something is gone; [`input`]: files to send
//! - [`pages`]: lists that come in pages
//! - [`quota`], [`usage`], [`rules`], [`switch`], [`token`], [`audit`]: the commands

pub(super) mod audit;
pub(super) mod client;
mod confirm;
pub(super) mod failure;
pub(super) mod flags;
mod input;
mod output;
mod pages;
pub(super) mod quota;
pub(super) mod rules;
pub(super) mod switch;
mod table;
mod tls;
pub(super) mod token;
pub(super) mod usage;
mod when;

use std::process::ExitCode;

use self::failure::Failure;
use super::out;

/// What a command came to. Most have nothing more to say.
type Outcome<T = ()> = Result<T, Failure>;

/// Says what went wrong, if anything; the exit code of that.
pub(super) fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = out::fail(&failure);
            ExitCode::from(failure.code())
        }
    }
}

/// How the commands end.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the node refused, could not be reached, or answered something strange
  2  the command line is wrong";

/// Where a node and its token are looked for.
const REACHING: &str = "\
The node:
  --admin, else TIDEGATE_ADMIN, else http://127.0.0.1:6070. An https:// address is trusted by
  --ca, else by the system's authorities; unix:/path is a socket.

The token:
  --token, else --token-file, else TIDEGATE_TOKEN, else TIDEGATE_TOKEN_FILE. Without any, a node
  on this machine is asked with the token it made for itself, `admin-token` in its data folder
  (setting `data`). Other users of this machine can read command lines: prefer a file or a variable.";

/// The end of a command's long help.
fn long_help(examples: &str) -> String {
    format!("{examples}\n\n{REACHING}\n\n{EXIT_CODES}")
}
