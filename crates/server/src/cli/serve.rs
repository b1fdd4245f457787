//! `tidegate serve`

use std::process::ExitCode;

use clap::Args;

use super::flags::SettingFlags;
use super::{EXIT_CODES, out};
use crate::config::document;

const EXAMPLES: &str = "\
Examples:
  tidegate serve                                    with ./tidegate.yaml and ./rules, if there are any
  tidegate serve --config /etc/tidegate/tidegate.yaml
  tidegate serve --rules rules/api.yaml --grpc 127.0.0.1:8081 --http off
  TIDEGATE_LOG__LEVEL=debug tidegate serve
  tidegate serve --grpc unix:/run/tidegate/grpc.sock";

/// Answer requests until told to stop.
///
/// Reads settings and rules, listens, and answers. SIGTERM and SIGINT drain: the service says that it
/// is not ready, finishes what it accepted, writes its counters to the data folder, and exits with 0.
///
/// Without rules, that is if there is no folder ./rules and no other path was named, it starts with one
/// domain, `apps`. Limits that applications have in their code and send along are enforced there, as the
/// Python, TypeScript and Rust middlewares do; `tidegate init` writes rules to change.
///
/// A setting is taken from its flag, else from the environment, else from the settings file, else it
/// has its default. `tidegate config` with the same flags shows what is in force; docs/settings.md
/// explains every setting.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long())]
pub(super) struct Serve {
    #[command(flatten)]
    settings: SettingFlags,
}

fn long() -> String {
    format!(
        "{EXAMPLES}\n\nEvery setting as a variable of the environment:\n{}\n{EXIT_CODES}",
        document::list()
    )
}

impl Serve {
    pub(super) fn run(self) -> ExitCode {
        let settings = match self.settings.settings() {
            Ok(settings) => settings,
            Err(problems) => return out::fail(problems),
        };
        // The allocator asks for huge pages, and a node with little to keep would hold 13 MB more by them. Where
        // the kernel knows none, or does not let go of them, memory is all that differs.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
        match crate::run::serve(&settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => out::fail(format_args!("tidegate: {error}")),
        }
    }
}
