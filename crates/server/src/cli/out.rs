//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde_json::{Value as Json, json};

/// Whether failures and notes on standard error are JSON, one object per line. It is set once, before a command runs.
static JSON_OUTPUT: OnceLock<bool> = OnceLock::new();

/// Sets whether failures and notes are JSON.
pub(super) fn set_json(json: bool) {
    // It is set only once.
    let _ = JSON_OUTPUT.set(json);
}

/// Returns whether failures and notes are JSON.
pub(super) fn is_json_output() -> bool {
    JSON_OUTPUT.get().copied().unwrap_or(false)
}

/// Prints to standard output. Errors are ignored, such as a closed pipe with `| head`.
pub(super) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a failure to standard error. Returns the exit code.
pub(super) fn fail(message: impl Display) -> ExitCode {
    if is_json_output() {
        fail_json(&json!({ "kind": "failed", "message": message.to_string(), "exit_code": 1 }));
    } else {
        let _ = writeln!(io::stderr(), "{message}");
    }
    ExitCode::FAILURE
}

/// Prints a failure to standard error as `{"error": …}`.
pub(super) fn fail_json(error: &Json) {
    let _ = writeln!(io::stderr(), "{}", json!({ "error": error }));
}

/// Prints a note to standard error.
pub(super) fn note(message: impl Display) {
    if is_json_output() {
        let _ = writeln!(io::stderr(), "{}", json!({ "note": message.to_string() }));
    } else {
        let _ = writeln!(io::stderr(), "{message}");
    }
}

/// Prints a value as indented JSON.
pub(super) fn print_json(value: &impl serde::Serialize) {
    let text =
        serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    print(&(text + "\n"));
}

/// Returns `1 error`, `2 errors`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
