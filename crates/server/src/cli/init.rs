//! `tidegate init`

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{EXIT_CODES, out};
use crate::config::{DEFAULT_FILE, document};

const EXAMPLE_RULES: &str = include_str!("example.yaml");
const APPS_RULES: &str = include_str!("apps.yaml");

const EXAMPLES: &str = "\
Examples:
  tidegate init && tidegate serve
  tidegate init deploy/tidegate";

/// Write a settings file and example rules.
///
/// Writes tidegate.yaml, which describes every setting with its default; rules/example.yaml, with rules to edit; and
/// rules/apps.yaml, the domain for limits that applications define in their code, as the Python, TypeScript and Rust
/// middlewares do. If one of these files exists, nothing is written, unless --force is given.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Init {
    /// The folder to write to, which is created if it does not exist.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Overwrite files that exist.
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(super) fn run(self) -> ExitCode {
        let files = [
            (self.folder.join(DEFAULT_FILE), document::sample()),
            (self.folder.join("rules").join("example.yaml"), EXAMPLE_RULES.to_owned()),
            (self.folder.join("rules").join("apps.yaml"), APPS_RULES.to_owned()),
        ];
        let there: Vec<_> = files.iter().filter(|(path, _)| path.exists()).collect();
        if !self.force && !there.is_empty() {
            let names: Vec<_> = there.iter().map(|(path, _)| path.display().to_string()).collect();
            let names = names.join(" and ");
            return out::fail(format_args!(
                "{names}: exists already; nothing was written, use --force to overwrite"
            ));
        }
        for (path, text) in &files {
            if let Err(error) = write(path, text, self.force) {
                return out::fail(format_args!("{}: cannot be written: {error}", path.display()));
            }
            out::print(&format!("wrote {}\n", path.display()));
        }
        let config = &files[0].0;
        let serve = if config.parent() == Some(Path::new(".")) {
            "tidegate serve".to_owned()
        } else {
            format!("tidegate serve --config {}", config.display())
        };
        out::print(&format!("next: {serve}\n"));
        ExitCode::SUCCESS
    }
}

/// Without `force`, a file that was created in the meantime is not overwritten.
fn write(path: &Path, text: &str, force: bool) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).truncate(true).create(force).create_new(!force);
    options.open(path)?.write_all(text.as_bytes())
}
