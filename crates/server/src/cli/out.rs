//! Writing to the terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde_json::{Value as Json, json};

/// Whether the command line asked for JSON: failures and notes on standard error are JSON then, too, one object
/// per line. It is the same for the whole process, and set once, before a command runs.
static SPEAKS_JSON: OnceLock<bool> = OnceLock::new();

/// Sets whether failures and notes are JSON.
pub(super) fn speak_json(json: bool) {
    // Only tests within one process could set it twice, and they do not.
    let _ = SPEAKS_JSON.set(json);
}

/// Whether failures and notes are JSON.
pub(super) fn speaks_json() -> bool {
    SPEAKS_JSON.get().copied().unwrap_or(false)
}

/// Writes to standard output. If nobody reads on, as with `| head`, there is nothing left to do.
pub(super) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Says on standard error what went wrong; the exit code of that.
pub(super) fn fail(message: impl Display) -> ExitCode {
    if speaks_json() {
        fail_json(&json!({ "kind": "failed", "message": message.to_string(), "exit_code": 1 }));
    } else {
        let _ = writeln!(io::stderr(), "{message}");
    }
    ExitCode::FAILURE
}

/// Writes a failure to standard error as `{"error": …}`.
pub(super) fn fail_json(error: &Json) {
    let _ = writeln!(io::stderr(), "{}", json!({ "error": error }));
}

/// Says something beside the output, on standard error.
pub(super) fn note(message: impl Display) {
    if speaks_json() {
        let _ = writeln!(io::stderr(), "{}", json!({ "note": message.to_string() }));
    } else {
        let _ = writeln!(io::stderr(), "{message}");
    }
}

/// As JSON, for people to read all the same.
pub(super) fn print_json(value: &impl serde::Serialize) {
    let text =
        serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    print(&(text + "\n"));
}

/// `1 error`, `2 errors`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
