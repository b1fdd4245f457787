//! Finds the programs that are measured.

use std::path::PathBuf;

use crate::cli::Options;
use crate::error::Error;
use crate::finding::Table;
use crate::machine::locked_version;
use crate::study::bed::{Launcher, built, installed, version};

/// The programs that are started.
pub(crate) struct Programs {
    pub(super) launcher: Launcher,
    /// The servers that allow every request, with Tidegate's allocator.
    pub(super) constant: PathBuf,
    /// The servers that allow every request, with the system allocator.
    pub(super) constant_stock: PathBuf,
    pub(super) throttlecrab: PathBuf,
    pub(super) nginx: PathBuf,
}

impl Programs {
    /// Finds all programs, or returns an error that tells how to get the missing one.
    pub(crate) fn find(options: &Options) -> Result<Self, Error> {
        let tools = "run `make bench-tools`, or `cargo install --locked --root .tools throttlecrab-server`, \
                     which needs protoc (`apt-get install protobuf-compiler`)";
        Ok(Self {
            launcher: Launcher::find(options)?,
            constant: built("tidegate-bench-constant")?,
            constant_stock: built("tidegate-bench-constant-stock")?,
            throttlecrab: installed("throttlecrab-server", tools)?,
            nginx: installed("nginx", "run `make bench-tools`, or `apt-get install nginx-light`")?,
        })
    }

    /// Returns a table of the measured programs: their versions, and how they are started.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new("What was measured", ["", "version", "started as"]);
        let stack =
            |crates: [&str; 2]| crates.map(|name| format!("{name} {}", locked_version(name))).join(", ");
        let rows = [
            (
                "Tidegate",
                version(&self.launcher.tidegate, "--version"),
                "`tidegate serve --rules … --data … --grpc … --http … --admin …`, memory store",
            ),
            (
                "throttlecrab",
                version(&self.throttlecrab, "--version"),
                "`throttlecrab-server --grpc --grpc-host 127.0.0.1 --grpc-port …`",
            ),
            (
                "NGINX",
                version(&self.nginx, "-v"),
                "`nginx -p … -c …`, one process, `limit_req` by `$arg_key` before `empty_gif`",
            ),
            ("tonic, constant", stack(["tonic", "tokio"]), "`tidegate-bench-constant-stock tonic-multi …`"),
            (
                "the same stack, constant",
                stack(["tidegate-http2", "tokio"]),
                "`tidegate-bench-constant own …`",
            ),
            ("hyper, constant", stack(["hyper", "tokio"]), "`tidegate-bench-constant hyper …` or `http …`"),
        ];
        for (name, version, how) in rows {
            table.row([name, &version, how]);
        }
        table
    }
}
