//! `tidegate serve`

use std::process::ExitCode;

use clap::Args;

use super::flags::SettingFlags;
use super::{EXIT_CODES, out};
use crate::config::document;

const EXAMPLES: &str = "\
Examples:
  tidegate serve                                    with ./tidegate.yaml and ./rules, if they exist
  tidegate serve --config /etc/tidegate/tidegate.yaml
  tidegate serve --rules rules/api.yaml --grpc 127.0.0.1:8081 --http off
  TIDEGATE_LOG__LEVEL=debug tidegate serve
  tidegate serve --grpc unix:/run/tidegate/grpc.sock";

/// Run the service until a signal stops it.
///
/// On SIGTERM and SIGINT the service drains: it reports that it is not ready, finishes accepted requests, writes its
/// counters to the data folder, and exits with 0.
///
/// Without rules, that is if the folder ./rules does not exist and no other path was named, it starts with one domain,
/// `apps`. It enforces limits that applications define in their code and send with their requests, as the Python,
/// TypeScript and Rust middlewares do. `tidegate init` writes rules to edit.
///
/// A setting is taken from its flag, else from the environment, else from the settings file, else from its default.
/// `tidegate config` with the same flags shows the settings in force; docs/settings.md describes every setting.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = long())]
pub(super) struct Serve {
    #[command(flatten)]
    settings: SettingFlags,
}

fn long() -> String {
    format!("{EXAMPLES}\n\nEvery setting as an environment variable:\n{}\n{EXIT_CODES}", document::list())
}

impl Serve {
    pub(super) fn run(self) -> ExitCode {
        let settings = match self.settings.settings() {
            Ok(settings) => settings,
            Err(problems) => return out::fail(problems),
        };
        // With huge pages, a node with few counters would use 13 MB more. If it fails, only memory usage differs.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
        match crate::run::serve(&settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => out::fail(format_args!("tidegate: {error}")),
        }
    }
}
