//! Asks for confirmation.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;

use super::Outcome;
use super::failure::Failure;

/// The flag of commands that delete something.
#[derive(Args, Debug)]
pub(super) struct Confirm {
    /// Do not ask for confirmation; needed without a terminal.
    #[arg(short, long)]
    yes: bool,
}

impl Confirm {
    /// Asks for confirmation. `question` has no question mark.
    pub(super) fn ask(&self, question: &str) -> Outcome {
        if self.yes {
            return Ok(());
        }
        let (input, mut screen) = (io::stdin(), io::stderr());
        if !input.is_terminal() || !screen.is_terminal() {
            return Err(Failure::usage(format!(
                "{question}? Confirm with --yes, because there is no terminal to ask on"
            )));
        }
        let _ = write!(screen, "{question}? [y/N] ").and_then(|()| screen.flush());
        let mut response = String::new();
        let read = input.lock().read_line(&mut response);
        if read.is_ok() && matches!(response.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Failure::other("nothing was changed"))
    }
}
