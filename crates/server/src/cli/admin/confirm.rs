//! Asking before something is gone.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;

use super::Outcome;
use super::failure::Failure;

/// The flag of what cannot be undone.
#[derive(Args, Debug)]
pub(super) struct Confirm {
    /// Do not ask; needed where there is no terminal to ask on.
    #[arg(short, long)]
    yes: bool,
}

impl Confirm {
    /// Goes on if it is meant: `question` is without its question mark.
    pub(super) fn ask(&self, question: &str) -> Outcome {
        if self.yes {
            return Ok(());
        }
        let (input, mut screen) = (io::stdin(), io::stderr());
        if !input.is_terminal() || !screen.is_terminal() {
            return Err(Failure::usage(format!(
                "{question}? Say so with --yes, since nobody can be asked here"
            )));
        }
        let _ = write!(screen, "{question}? [y/N] ").and_then(|()| screen.flush());
        let mut answer = String::new();
        let read = input.lock().read_line(&mut answer);
        if read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Failure::other("nothing was changed"))
    }
}
