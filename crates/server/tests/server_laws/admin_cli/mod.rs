//! The commands over the admin API, as people and scripts run them.
//!
//! - [`node`]: an admin API that answers as a test tells it to, and remembers what it was asked
//! - the laws: [`reaching`] a node, [`contexts`], [`quotas`], [`bulk`], [`rules`], and [`lists`]; [`service`]: with
//!   the real service; [`terminal`]: in a terminal

mod bulk;
mod contexts;
mod lists;
mod node;
mod quotas;
mod reaching;
mod rules;
mod service;
mod terminal;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use self::node::Node;

/// What a run came to.
struct Run {
    code: i32,
    out: String,
    err: String,
}

/// The command in this folder, with nothing of ours in its environment.
fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    // Whoever runs the tests may have contexts of their own.
    command.env("XDG_CONFIG_HOME", folder.join("config"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command
}

fn finish(mut command: Command) -> Run {
    let output = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("the output is text");
    Run {
        code: output.status.code().expect("no signal ends it"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Runs against a node, with a token.
fn run(node: &Node, args: &[&str]) -> Run {
    let folder = folder();
    let mut command = command(folder.path(), args);
    command.env("TIDEGATE_ADMIN", &node.url).env("TIDEGATE_TOKEN", "tg_test");
    finish(command)
}

/// The same with something on standard input.
fn run_with_input(node: &Node, args: &[&str], input: &str) -> Run {
    let folder = folder();
    let mut command = command(folder.path(), args);
    command.env("TIDEGATE_ADMIN", &node.url).env("TIDEGATE_TOKEN", "tg_test");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("the output is text");
    Run { code: output.status.code().expect("no signal"), out: text(output.stdout), err: text(output.stderr) }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}
