//! Where the node is, and who asks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate::Problems;

use super::Outcome;
use super::client::{Base, Client};
use super::failure::Failure;
use super::tls;
use crate::cli::flags::ConfigFlag;
use crate::cli::out;
use crate::config::Settings;

/// What every command over the admin API takes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connection")]
pub(in crate::cli) struct AdminFlags {
    /// The node's admin address.
    #[arg(
        long,
        visible_alias = "url",
        value_name = "URL",
        env = "TIDEGATE_ADMIN",
        default_value = "http://127.0.0.1:6070",
        value_parser = Base::parse
    )]
    admin: Base,
    /// The token itself; other users of this machine can see it.
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the token.
    #[arg(
        long,
        value_name = "FILE",
        help = "File with the token [env: TIDEGATE_TOKEN_FILE, or TIDEGATE_TOKEN]"
    )]
    token_file: Option<PathBuf>,
    /// Authorities that the node's certificate is trusted by, PEM [default: the system's]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CA", hide_env_values = true)]
    ca: Option<PathBuf>,
    /// Certificate to show to the node, PEM; needs --key.
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CERT", hide_env_values = true, requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of that certificate, PEM.
    #[arg(long, value_name = "FILE", env = "TIDEGATE_KEY", hide_env_values = true, requires = "cert")]
    key: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlag,
}

impl AdminFlags {
    /// A client for the node.
    pub(in crate::cli) fn client(self) -> Outcome<Client> {
        let identity = self.cert.as_deref().zip(self.key.as_deref());
        let tls = if self.admin.is_tls() { Some(tls::trust(self.ca.as_deref(), identity)?) } else { None };
        let given = token(self.token, self.token_file)?;
        let token = match given {
            Some(token) => {
                if !self.admin.is_tls() && !self.admin.is_here() {
                    out::note(format_args!(
                        "warning: the token goes to {} unencrypted; give an https:// address",
                        self.admin
                    ));
                }
                Some(token)
            }
            // The token of a node on this machine is for nobody else.
            None if self.admin.is_here() => own_token(self.config)?,
            None => None,
        };
        Client::new(self.admin, token, tls)
    }

    /// The settings in force on this machine.
    pub(in crate::cli) fn settings(self) -> Result<Settings, Problems> {
        self.config.settings()
    }
}

/// The token that flags or the environment give, the flags first.
fn token(flag: Option<String>, file: Option<PathBuf>) -> Outcome<Option<String>> {
    if let Some(token) = flag {
        return checked(&token, "--token").map(Some);
    }
    if let Some(file) = file {
        return read(&file).map(Some);
    }
    if let Ok(token) = std::env::var("TIDEGATE_TOKEN")
        && !token.is_empty()
    {
        return checked(&token, "TIDEGATE_TOKEN").map(Some);
    }
    std::env::var_os("TIDEGATE_TOKEN_FILE").map(|file| read(Path::new(&file))).transpose()
}

fn read(file: &Path) -> Outcome<String> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::other(format!(
            "cannot read the token in {}: {error}; give a file that you may read",
            file.display()
        ))
    })?;
    checked(&text, &file.display().to_string())
}

/// One word, or it would not fit a header. The message does not show it.
fn checked(text: &str, from: &str) -> Outcome<String> {
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::other(format!("{from} has no token in it: it must be one word, tg_…")));
    }
    Ok(token.to_owned())
}

fn data_folder(config: ConfigFlag) -> Outcome<PathBuf> {
    Ok(config.settings().map_err(|problems| Failure::other(problems.to_string()))?.data)
}

/// The token that a node here made for itself, if there is one.
fn own_token(config: ConfigFlag) -> Outcome<Option<String>> {
    let file = data_folder(config)?.join("admin-token");
    match fs::metadata(&file) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        _ => read(&file).map(Some),
    }
}
