//! Where the node is, and who asks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate::Problems;

use super::Outcome;
use super::client::{Base, Client};
use super::context::store::{Context, Contexts};
use super::failure::Failure;
use super::tls;
use crate::cli::flags::ConfigFlag;
use crate::cli::out;
use crate::config::Settings;

/// What every command over the admin API takes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(in crate::cli) struct AdminFlags {
    /// The node's admin address: `host:port`, a URL, or `unix:/path`.
    #[arg(
        long,
        visible_alias = "url",
        value_name = "URL",
        help = "The node's admin address: `host:port`, a URL, or `unix:/path` [env: TIDEGATE_ADMIN] [default: http://127.0.0.1:6070]",
        value_parser = Base::parse
    )]
    admin: Option<Base>,
    /// The context to ask, instead of the one in use.
    #[arg(
        long,
        value_name = "NAME",
        help = "The context to ask, instead of the one in use; see `tidegate context` [env: TIDEGATE_CONTEXT]",
        conflicts_with = "admin"
    )]
    context: Option<String>,
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
    #[arg(
        long,
        value_name = "FILE",
        help = "Authorities that the node's certificate is trusted by, PEM [default: the system's] [env: TIDEGATE_CA]"
    )]
    ca: Option<PathBuf>,
    /// Certificate to show to the node, PEM; needs --key.
    #[arg(
        long,
        value_name = "FILE",
        help = "Certificate to show to the node, PEM; needs --key [env: TIDEGATE_CERT]",
        requires = "key"
    )]
    cert: Option<PathBuf>,
    /// Private key of that certificate, PEM.
    #[arg(
        long,
        value_name = "FILE",
        help = "Private key of that certificate, PEM [env: TIDEGATE_KEY]",
        requires = "cert"
    )]
    key: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Where the node is that a command asks, before flags for tokens and certificates are looked at.
struct Target {
    base: Base,
    context: Context,
    /// Whether the context was named by its flag: what it says goes before the environment then.
    by_flag: bool,
}

impl Target {
    fn find(admin: Option<Base>, context: Option<&str>) -> Outcome<Self> {
        let alone = |base| Ok(Self { base, context: Context::default(), by_flag: false });
        if let Some(base) = admin {
            return alone(base);
        }
        if let Some(name) = context {
            return Self::of(Contexts::load()?.find(name)?.clone(), name, true);
        }
        if let Some(text) = variable("TIDEGATE_ADMIN") {
            let base = Base::parse(&text);
            return alone(
                base.map_err(|wrong| Failure::usage(format!("TIDEGATE_ADMIN: {wrong}, got {text:?}")))?,
            );
        }
        let contexts = Contexts::load()?;
        match variable("TIDEGATE_CONTEXT").or_else(|| contexts.current.clone()) {
            Some(name) => Self::of(contexts.find(&name)?.clone(), &name, false),
            None => alone(Base::usual()),
        }
    }

    fn of(context: Context, name: &str, by_flag: bool) -> Outcome<Self> {
        let base = Base::parse(&context.admin).map_err(|wrong| {
            Failure::other(format!("context {name}: admin {wrong}, got {:?}", context.admin))
        })?;
        Ok(Self { base, context, by_flag })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

impl AdminFlags {
    /// A client for the node.
    pub(in crate::cli) fn client(self) -> Outcome<Client> {
        let Target { base, context, by_flag } = Target::find(self.admin, self.context.as_deref())?;
        let ca = self.ca.or_else(|| file_variable("TIDEGATE_CA", by_flag, context.ca));
        let (cert, key) = match (self.cert, self.key) {
            (Some(cert), Some(key)) => (Some(cert), Some(key)),
            _ => (
                file_variable("TIDEGATE_CERT", by_flag, context.cert),
                file_variable("TIDEGATE_KEY", by_flag, context.key),
            ),
        };
        if cert.is_some() != key.is_some() {
            return Err(Failure::usage(
                "a certificate needs its key: set both TIDEGATE_CERT and TIDEGATE_KEY",
            ));
        }
        let identity = cert.as_deref().zip(key.as_deref());
        let tls = if base.is_tls() { Some(tls::trust(ca.as_deref(), identity)?) } else { None };
        let (first, last) = if by_flag { (context.token_file, None) } else { (None, context.token_file) };
        let given = token(self.token, self.token_file, first, last)?;
        let token = match given {
            Some(token) => {
                if !base.is_tls() && !base.is_here() {
                    out::note(format_args!(
                        "warning: the token goes to {base} unencrypted; give an https:// address"
                    ));
                }
                Some(token)
            }
            // The token of a node on this machine is for nobody else.
            None if base.is_here() => own_token(self.config)?,
            None => None,
        };
        Client::new(base, token, tls)
    }

    /// The settings in force on this machine.
    pub(in crate::cli) fn settings(self) -> Result<Settings, Problems> {
        self.config.settings()
    }
}

/// The file that the environment or the context names; a context that was chosen by its flag goes first.
fn file_variable(name: &str, context_first: bool, of_context: Option<PathBuf>) -> Option<PathBuf> {
    let of_environment = variable(name).map(PathBuf::from);
    if context_first { of_context.or(of_environment) } else { of_environment.or(of_context) }
}

/// The token of the flags, else of the first context, else of the environment, else of the last context. One of
/// the contexts is `None`.
fn token(
    flag: Option<String>,
    file: Option<PathBuf>,
    first: Option<PathBuf>,
    last: Option<PathBuf>,
) -> Outcome<Option<String>> {
    if let Some(token) = flag {
        return checked(&token, "--token").map(Some);
    }
    if let Some(file) = file.or(first) {
        return read(&file).map(Some);
    }
    if let Some(token) = variable("TIDEGATE_TOKEN") {
        return checked(&token, "TIDEGATE_TOKEN").map(Some);
    }
    variable("TIDEGATE_TOKEN_FILE").map(PathBuf::from).or(last).map(|file| read(&file)).transpose()
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
